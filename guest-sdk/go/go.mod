module modelhost.example/guest

go 1.24
