"""Services that unlearn: the accounting of what their answers tell, in rational numbers."""
