package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The functions of this file write the settings of other proxies: no cache, no
// log, the same list of names, and the target's address allowed.

func write(dir, name, text string) (string, error) {
	file := filepath.Join(dir, name)
	return file, os.WriteFile(file, []byte(text), 0o644)
}

func tinyproxy(dir string, port, rules int) ([]string, error) {
	filter := strings.Join(names(rules, ""), "\n") + "\n127.0.0.1\n"
	list, err := write(dir, "filter", strings.ReplaceAll(filter, ".", `\.`))
	if err != nil {
		return nil, err
	}
	file, err := write(dir, "tinyproxy.conf", fmt.Sprintf(`Port %d
Listen 127.0.0.1
Allow 127.0.0.1
MaxClients 4000
LogLevel Critical
LogFile "/dev/null"
Filter "%s"
FilterDefaultDeny Yes
FilterType ere
`, port, list))
	return []string{"-d", "-c", file}, err
}

func squid(dir string, port, rules int) ([]string, error) {
	list, err := write(dir, "names", strings.Join(names(rules, "."), "\n")+"\n")
	if err != nil {
		return nil, err
	}
	file, err := write(dir, "squid.conf", fmt.Sprintf(`http_port 127.0.0.1:%d
acl names dstdomain "%s"
acl target dst 127.0.0.1
http_access allow names
http_access allow target
http_access deny all
cache deny all
cache_mem 0
access_log none
cache_store_log none
cache_log /dev/null
pid_filename none
pinger_enable off
max_filedescriptors 8192
shutdown_lifetime 0 seconds
coredump_dir %s
`, port, list, dir))
	return []string{"-N", "-f", file}, err
}

func dante(dir string, port, _ int) ([]string, error) {
	file, err := write(dir, "danted.conf", fmt.Sprintf(`logoutput: /dev/null
internal: 127.0.0.1 port = %d
external: 127.0.0.1
clientmethod: none
socksmethod: none
client pass { from: 127.0.0.1/32 to: 0.0.0.0/0 }
socks pass { from: 127.0.0.1/32 to: 0.0.0.0/0 command: connect }
`, port))
	return []string{"-f", file}, err
}
