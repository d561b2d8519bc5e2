"""Files of sites as transfer methods see them."""
