package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/srt-sandbox/srt/config"
	"github.com/srt-sandbox/srt/internal/testutil"
)

// postgresProgram finds a program of PostgreSQL, which Debian keeps off PATH.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		t.Skipf("PostgreSQL is not installed: no %s", name)
	}
	return found[len(found)-1]
}

// startPostgreSQL runs a database on a port of the loopback and returns the port.
// It refuses to run as root, and wants a user who has a name.
func startPostgreSQL(t *testing.T) int {
	t.Helper()
	const nobody = 65534
	initdb, postgres := postgresProgram(t, "initdb"), postgresProgram(t, "postgres")
	dir := openTempDir(t)
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	run := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, as, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C"}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := run(initdb, "-D", data, "-A", "trust", "-U", "tester", "--no-sync").CombinedOutput(); err != nil {
		t.Skipf("initdb does not work here: %v\n%s", err, out)
	}
	number := testutil.ReservedPort(t)
	port, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	server := run(postgres, "-D", data, "-h", "127.0.0.1", "-p", number, "-k", "", "-F")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
	})
	testutil.Eventually(t, "the start of PostgreSQL", func() bool {
		conn, err := net.Dial("tcp4", "127.0.0.1:"+number)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return port
}

// A database outside is used from inside, by its own client, which knows no proxy.
func TestPostgreSQLOutside(t *testing.T) {
	psql := postgresProgram(t, "psql")
	port := startPostgreSQL(t)
	for _, uid := range users() {
		for _, backend := range []string{config.BackendNative, config.BackendBubblewrap, config.BackendLandlock} {
			t.Run(fmt.Sprintf("uid%d/%s", uid, backend), func(t *testing.T) {
				needBackend(t, backend)
				settings := fmt.Sprintf(`{"network":{"allowedDomains":[],"deniedDomains":[],"allowHostPorts":[%d]},"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[]}}`, port)
				s := newSandboxed(t, uid, withLinux(settings, backend, ""))
				table := fmt.Sprintf("t_%d_%s", uid, backend)
				sql := fmt.Sprintf("create table %[1]s as select generate_series(1, 100000) as n; select sum(n) from %[1]s;", table)
				for _, host := range []string{"127.0.0.1", "localhost"} {
					out, err := s.command(psql, "-X", "-U", "tester", "-h", host, "-p", strconv.Itoa(port), "-tAc", sql, "postgres").CombinedOutput()
					if err != nil || !strings.Contains(string(out), "5000050000") {
						t.Errorf("%s: %v\n%s", host, err, out)
					}
					sql = "select sum(n) from " + table
				}
				out, err := s.command(psql, "-X", "-U", "tester", "-h", "127.0.0.1", "-p", strconv.Itoa(port+1), "-tAc", "select 1", "postgres").CombinedOutput()
				if err == nil || !strings.Contains(string(out), "Connection refused") {
					t.Errorf("another port: %v\n%s", err, out)
				}
			})
		}
	}
}
