from app.cli.command import run

run()
