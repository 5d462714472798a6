"""The pages for people, and the script that writes the generated parts of them."""
