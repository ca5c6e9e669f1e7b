"""The face for notebooks: estimators by scikit-learn's conventions over tables of votes."""
