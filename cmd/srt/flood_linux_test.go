package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// serve is the script command "serve [PORT]": it answers everybody who connects
// to that port of 127.0.0.1 with one line.
func serve() {
	port := "8099"
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	ln, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(conn, "served")
		conn.Close()
	}
}

// flood is the script command "flood KIND COUNT": it does one thing very often.
func flood() {
	count, _ := strconv.Atoi(os.Args[2])
	done := map[string]func(int) int{"tunnels": tunnels, "threads": threads, "standing": standing, "silence": silence, "refusals": refusals, "files": files, "hosts": hosts, "storm": storm, "clog": clog, "stall": stall}[os.Args[1]](count)
	fmt.Println(done)
}

// tunnels opens connections through the proxy at the same time and counts those
// through which a line came back.
func tunnels(count int) int {
	var good atomic.Int32
	var wait sync.WaitGroup
	for i := range count {
		wait.Go(func() {
			conn, err := net.Dial("tcp", "127.0.0.1:3128")
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", os.Getenv("ECHO"))
			r := bufio.NewReader(conn)
			status, _ := r.ReadString('\n')
			for line := status; line != "\r\n" && line != ""; line, _ = r.ReadString('\n') {
			}
			fmt.Fprintln(conn, i)
			if answer, _ := r.ReadString('\n'); strings.Contains(status, " 200 ") && answer == fmt.Sprintln(i) {
				good.Add(1)
			}
		})
	}
	wait.Wait()
	return int(good.Load())
}

// standing opens tunnels that all stand at the same time, and then counts those
// through which a line comes back.
func standing(count int) int {
	var good atomic.Int32
	var opening, answered sync.WaitGroup
	turns := make(chan struct{}, 100)
	opening.Add(count)
	for i := range count {
		answered.Go(func() {
			turns <- struct{}{}
			conn, err := net.Dial("tcp", "127.0.0.1:3128")
			status := ""
			if err == nil {
				defer conn.Close()
				fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", os.Getenv("ECHO"))
				head := make([]byte, len("HTTP/1.1 200 Connection Established\r\n\r\n"))
				_, _ = io.ReadFull(conn, head)
				status = string(head)
			}
			<-turns
			opening.Done()
			opening.Wait()
			if !strings.Contains(status, " 200 ") {
				return
			}
			fmt.Fprintln(conn, i)
			if answer, _ := bufio.NewReaderSize(conn, 16).ReadString('\n'); answer == fmt.Sprintln(i) {
				good.Add(1)
			}
		})
	}
	answered.Wait()
	return int(good.Load())
}

// threads connects from as many threads at once, each of which waits in connect(2).
func threads(count int) int {
	var good atomic.Int32
	var ready, wait sync.WaitGroup
	ready.Add(count)
	for range count {
		wait.Go(func() {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			ready.Done()
			ready.Wait()
			if err == nil && unix.Connect(fd, &unix.SockaddrInet4{Port: 3128, Addr: [4]byte{127, 0, 0, 1}}) == nil {
				good.Add(1)
			}
		})
	}
	wait.Wait()
	return int(good.Load())
}

// silence opens connections to the proxies and says nothing on them.
func silence(count int) int {
	good := 0
	for i := range count {
		if _, err := net.Dial("tcp", []string{"127.0.0.1:3128", "127.0.0.1:1080"}[i%2]); err == nil {
			good++
		}
	}
	return good
}

// refusals tries what the guard refuses and reports.
func refusals(count int) int {
	refused := 0
	for range count {
		if os.Mkdir(".bashrc", 0o700) != nil {
			refused++
		}
	}
	return refused
}

// hosts asks for hosts that are not allowed.
func hosts(count int) int {
	refused := 0
	for i := range count {
		conn, err := net.Dial("tcp", "127.0.0.1:3128")
		if err != nil {
			continue
		}
		fmt.Fprintf(conn, "CONNECT h%d.invalid:443 HTTP/1.1\r\nHost: x\r\n\r\n", i)
		if status, _ := bufio.NewReader(conn).ReadString('\n'); strings.Contains(status, "403") {
			refused++
		}
		conn.Close()
	}
	return refused
}

// clog is refused a write, fills standard output and error so that they take no more
// and make every writer fail instead of wait, and is then refused a host, often.
func clog(count int) int {
	_ = os.Mkdir(".bashrc", 0o700)
	for fd := 1; fd <= 2; fd++ {
		if err := unix.SetNonblock(fd, true); err != nil {
			return -1
		}
		for _, err := unix.Write(fd, []byte("full\n")); err == nil || err == unix.EINTR; _, err = unix.Write(fd, []byte("full\n")) {
		}
	}
	refused := hosts(count)
	_ = os.WriteFile("clogged", nil, 0o600)
	return refused
}

// stall connects to a server that accepts nobody with sockets that do not wait, and
// changes that while the guard serves the call. It counts the times at which another
// call is served soon.
func stall(count int) int {
	server := func() unix.Sockaddr { return &unix.SockaddrUnix{Name: "nobody.sock"} }
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil || unix.Bind(listener, server()) != nil || unix.Listen(listener, 0) != nil {
		return -1
	}
	served := 0
	for range count {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return -1
		}
		var over atomic.Bool
		go func() {
			for i := 0; !over.Load(); i++ {
				_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, i%2*unix.O_NONBLOCK)
				_ = unix.Kill(1, 40) // with which srt-init wakes its own threads
			}
		}()
		go func() { _ = unix.Connect(fd, server()) }()
		start := time.Now()
		time.Sleep(20 * time.Millisecond)
		over.Store(true)
		if os.Mkdir("d", 0o700) == nil && os.Remove("d") == nil && time.Since(start) < 5*time.Second {
			served++
		}
	}
	return served
}

// files has processes make and remove files at the same time, a call for the
// guard each.
func files(count int) int {
	good := make(chan bool)
	for i := range count {
		go func() {
			good <- exec.Command("bash", "-c", fmt.Sprintf("for k in {1..10}; do echo x > f%[1]d.$k && mv f%[1]d.$k g%[1]d.$k && rm g%[1]d.$k || exit 1; done", i)).Run() == nil
		}()
	}
	sum := 0
	for range count {
		if <-good {
			sum++
		}
	}
	return sum
}

// storm starts processes that make calls for srt-init, start others and check
// that each answer is theirs; every other one is killed in the middle. It counts
// those that ended as they should.
func storm(count int) int {
	const worker = `for k in {1..5}; do
		exec 3>w$0.$k && test "$(readlink /proc/$$/fd/3)" = "$PWD/w$0.$k" && echo $0 >&3 && exec 3>&- && mkdir d$0.$k && mv w$0.$k d$0.$k/x &&
			test "$(cat d$0.$k/x)" = $0 && rm d$0.$k/x && rmdir d$0.$k || exit 7
	done`
	good := make(chan bool)
	for i := range count {
		go func() {
			cmd := exec.Command("bash", "-c", worker, strconv.Itoa(i))
			if cmd.Start() != nil {
				good <- false
				return
			}
			if i%2 == 1 {
				time.Sleep(time.Duration(i%40) * 5 * time.Millisecond)
				_ = cmd.Process.Kill()
			}
			err := cmd.Wait()
			good <- err == nil || i%2 == 1 && strings.Contains(err.Error(), "killed")
		}()
	}
	sum := 0
	for range count {
		if <-good {
			sum++
		}
	}
	return sum
}
