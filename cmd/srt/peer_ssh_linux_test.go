package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// sshServer is a private sshd for one account, with a repository in its directory.
type sshServer struct {
	dir, port, account string
}

// newSSHServer starts an sshd as the user, because root's lets nobody in whose
// password is locked; skips where that cannot be had.
func newSSHServer(t *testing.T, uid int) *sshServer {
	t.Helper()
	account, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		t.Skipf("ssh needs an account for user number %d", uid)
	}
	for _, need := range []string{"ssh", "ssh-keygen", "git", "unshare"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("%s is not installed", need)
		}
	}
	const daemon = "/usr/sbin/sshd"
	if !fileExists(daemon) {
		t.Skip("sshd is not installed")
	}
	s := &sshServer{dir: openTempDir(t), port: testutil.ReservedPort(t), account: account.Username}
	makeRepository(t, s.dir)
	script := fmt.Sprintf(`ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f key && cp key.pub authorized &&
		printf '%%s\n' 'ListenAddress 127.0.0.1' 'Port %s' "HostKey $PWD/host" "AuthorizedKeysFile $PWD/authorized" 'StrictModes no' 'UsePAM no' 'PidFile none' 'PermitRootLogin yes' > config &&
		echo "[%s]:%s $(cut -d' ' -f1,2 host.pub)" > known && chown -R %d . && chmod 600 key host`, s.port, peerHost, s.port, uid)
	prepare := exec.Command("bash", "-c", script)
	prepare.Dir = s.dir
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("preparing sshd: %v\n%s", err, out)
	}
	cmd := exec.Command(daemon, "-D", "-e", "-f", filepath.Join(s.dir, "config"))
	if uid == 0 {
		// Root's sshd needs /run/sshd, which this machine need not have.
		cmd = exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$0" "$@"`, daemon, "-D", "-e", "-f", filepath.Join(s.dir, "config"))
	}
	var log strings.Builder
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", log.String())
		}
	})
	testutil.Eventually(t, "the start of sshd", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

// usersWithAccounts is users, with the first ordinary user that can log in.
func usersWithAccounts() []int {
	all := users()
	if os.Getuid() != 0 {
		return all
	}
	accounts, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(accounts)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 7 || !strings.HasSuffix(f[6], "sh") || !fileExists(f[5]) {
			continue
		}
		if uid, err := strconv.Atoi(f[2]); err == nil && uid >= 1000 {
			return []int{0, uid}
		}
	}
	return all
}

// network 137, 138: git reaches a repository over ssh, by the helper that srt
// names and by plain ssh without any proxy; who may not is told why.
func TestGitOverSSH(t *testing.T) {
	world := newPeerWorld(t)
	for _, uid := range usersWithAccounts() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			server := newSSHServer(t, uid)
			for _, way := range peerWays() {
				t.Run(way.name, func(t *testing.T) { tryGitOverSSH(t, world, server, uid, way) })
			}
		})
	}
}

func tryGitOverSSH(t *testing.T, world *peerWorld, server *sshServer, uid int, way peerWay) {
	s := world.sandboxed(t, uid, way)
	if out, err := exec.Command("cp", "-p", server.dir+"/key", server.dir+"/known", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chown(filepath.Join(s.dir, "key"), uid, uid); err != nil {
		t.Fatal(err)
	}
	script := way.before + `export GIT_SSH_COMMAND="${GIT_SSH_COMMAND:-ssh} -F none -i $PWD/key -o BatchMode=yes -o UserKnownHostsFile=$PWD/known -o StrictHostKeyChecking=yes"
		(while test ! -e done; do cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' '; done > arguments) & 
		git clone -q ssh://` + server.account + "@" + peerHost + ":" + server.port + server.dir + `/repo.git c && cat c/f
		cd c && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two && git push -q origin HEAD:refs/heads/new$RANDOM$RANDOM$RANDOM && echo pushed; cd ..
		touch done; wait; grep -c "peer:secre[t]" arguments
		git ls-remote ssh://a@denied.test:22/x; echo status $?
		git ls-remote ssh://a@off.test:22/x; echo status $?`
	out, errs := world.run(t, s, script)
	if !strings.HasPrefix(out, "cloned\npushed\n0\nstatus 128\nstatus 128\n") {
		t.Errorf("%q\n%s", out, errs)
	}
	if way.proxies && (!strings.Contains(errs, "sandbox proxy: denied.test:22: 403 use an https:// remote\n") || !strings.Contains(errs, "sandbox proxy: off.test:22: 403 host is not on the allow list\n")) {
		t.Errorf("the reason is not shown:\n%s", errs)
	}
}

// network 137: the helper takes plain hosts and ports only, says one line and
// ends although its input stays open, and passes the end of its input on.
func TestSSHHelper(t *testing.T) {
	world := newPeerWorld(t)
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := world.sandboxed(t, uid, peerWays()[0])
			script := `for h in $'a\nb' '$(touch made)' 'a b' '[::1]' ü '' '-oX' 'a;b' 'a%b'; do "$SRT" --srt-ssh-proxy "$h" 22 2>&1; echo $?; done
				for p in '' a 22x '2 2' -1; do "$SRT" --srt-ssh-proxy ` + peerHost + ` "$p" 2>&1; echo $?; done
				ls made 2>/dev/null
				"$SRT" --srt-ssh-proxy denied.test 22 2>&1 < <(sleep 600); echo refused $?
				"$SRT" --srt-ssh-proxy ` + peerHost + ` 1 2>&1 </dev/null; echo $?
				"$SRT" --srt-ssh-proxy 2001:db8::1 22 2>&1 </dev/null
				printf 'GET /hello HTTP/1.0\r\n\r\n' | "$SRT" --srt-ssh-proxy ${PLAIN%:*} ${PLAIN#*:} | tail -1`
			out, errs := world.run(t, s, script)
			want := strings.Repeat("sandbox proxy: bad host\n1\n", 6) + "sandbox proxy: -oX:22: 403 host is not on the allow list\n1\n" + strings.Repeat("sandbox proxy: bad host\n1\n", 2) + strings.Repeat("sandbox proxy: bad port\n1\n", 5) +
				"sandbox proxy: denied.test:22: 403 use an https:// remote\nrefused 1\nsandbox proxy: " + peerHost + ":1: 502 Bad Gateway\n1\nsandbox proxy: 2001:db8::1:22: 403 host is not on the allow list\nhello over HTTP/1.0\n"
			if out != want {
				t.Errorf("%s\nwant\n%s\nerrors\n%s", out, want, errs)
			}
		})
	}
}

// The helper runs although the directory of the srt binary is hidden.
func TestSSHHelperIsReadable(t *testing.T) {
	world := newPeerWorld(t)
	for _, uid := range users() {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			s := world.sandboxed(t, uid, peerWays()[0])
			text, err := os.ReadFile(s.settings)
			if err != nil {
				t.Fatal(err)
			}
			hidden := filepath.Dir(s.binary)
			changed := strings.Replace(string(text), `"denyRead":[]`, fmt.Sprintf(`"denyRead":[%q],"allowRead":[%q]`, hidden, s.dir), 1)
			if err := os.WriteFile(s.settings, []byte(changed), 0o644); err != nil || changed == string(text) {
				t.Fatalf("%v\n%s", err, text)
			}
			out, errs := world.run(t, s, `"$SRT" --srt-ssh-proxy denied.test 22 2>&1; cat `+s.settings+` 2>&1 | grep -c allowedDomains; echo x > "$SRT" || echo read-only`)
			if want := "sandbox proxy: denied.test:22: 403 use an https:// remote\n0\nread-only\n"; out != want {
				t.Errorf("%q, want %q\n%s", out, want, errs)
			}
		})
	}
}
