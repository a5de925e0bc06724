package proxy

import "golang.org/x/sys/windows"

var shortage error = windows.WSAEMFILE
