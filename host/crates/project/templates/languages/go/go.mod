module example.com/my-handler

go 1.24

require modelhost.example/guest v0.1.0

replace modelhost.example/guest => ./modelhost-guest
