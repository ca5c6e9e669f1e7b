from app.refits.fit.work_process import WorkProcess


class ImportProcess(WorkProcess):
    """The child process that reads a file: one that needs too much memory ends it alone."""

    work_name = "import"
