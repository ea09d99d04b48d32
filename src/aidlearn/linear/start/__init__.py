"""Initial clusters of a linear problem: the sharpened start, the paper's procedures, the user's labels.

``methods`` lists them by name; ``plan`` decides how many rows stay single.
"""
