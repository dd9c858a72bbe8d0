"""What the application calls. A comment at the end of a line is the name that the test has for it."""


def get(given):
    return given["missing"]  # get


def deep(number):
    return deep(number + 1)  # deep
