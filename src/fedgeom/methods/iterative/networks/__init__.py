"""Networks: bodies that make features of rows; a head makes scores of these."""
