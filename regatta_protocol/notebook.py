"""What a notebook's run and the controller tell each other."""

TOKEN = "JUPYTER_TOKEN"
"""The variable with the token of JupyterLab; it is not a variable of kernels."""
LISTENS = "regatta-notebook: port "
"""The beginning of the line that says where it listens."""
FOLDER = "notebooks"
"""The folder of the run that it shows, which the project keeps."""
