package inside

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// identityVariable tells srt-init in its environment who the caller is. It has no
// number of its own before it maps one.
const identityVariable = "SRT_IDENTITY"

// IdentityVariable is the entry of srt-init's environment that says which user
// and group to map.
func IdentityVariable(uid, gid int) string {
	return fmt.Sprintf("%s=%d %d", identityVariable, uid, gid)
}

// mapIdentity maps the caller's own user and group into the user namespace and
// nothing else. It does nothing where the namespace was made by somebody else.
func mapIdentity() error {
	identity, ok := os.LookupEnv(identityVariable)
	if !ok {
		return nil
	}
	uid, gid, ok := strings.Cut(identity, " ")
	if !ok {
		return errors.New("mapping the user into the namespaces: no user is given")
	}
	// The files belong to root as long as this process is not dumpable, as it is
	// where the caller cannot read the binary. harden makes it so again.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("mapping the user into the namespaces: %w", err)
	}
	// A group can be mapped only when setgroups(2) is given up, see user_namespaces(7).
	for _, file := range [...][2]string{{"setgroups", "deny"}, {"uid_map", uid + " " + uid + " 1"}, {"gid_map", gid + " " + gid + " 1"}} {
		if err := writeProc("/proc/self/"+file[0], file[1]); err != nil {
			return fmt.Errorf("mapping the user into the namespaces: writing %s: %w", file[0], err)
		}
	}
	return nil
}

// writeProc writes a file of /proc, which takes the text as a whole.
func writeProc(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}
