package inside

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// deviceNodes builds the sandbox's /dev: a handful of harmless host nodes, a
// pseudo-terminal instance of its own and private shared memory. Nothing else
// of the host's /dev is reachable.
type deviceNodes struct {
	names   []string
	nodes   []int
	console int
}

// harmlessDevices are the nodes that every program may expect and that reach
// neither hardware nor other processes.
var harmlessDevices = [...]string{"null", "zero", "full", "random", "urandom", "tty"}

var deviceLinks = [...][2]string{
	{"/proc/self/fd", "fd"},
	{"/proc/self/fd/0", "stdin"},
	{"/proc/self/fd/1", "stdout"},
	{"/proc/self/fd/2", "stderr"},
	{"/proc/kcore", "core"},
	{"pts/ptmx", "ptmx"},
}

// take copies the host's nodes before the base mounts become nodev.
func (d *deviceNodes) take() error {
	d.console = -1
	for _, name := range harmlessDevices {
		fd, err := cloneNode("/dev/" + name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		d.names = append(d.names, name)
		d.nodes = append(d.nodes, fd)
	}
	d.takeConsole()
	return nil
}

// takeConsole keeps the terminal on the standard streams: programs look for a
// name of their terminal below /dev, where the pseudo-terminals of the host are
// not. A terminal that cannot be kept has no name inside.
func (d *deviceNodes) takeConsole() {
	for stream := range 3 {
		if _, err := unix.IoctlGetTermios(stream, unix.TCGETS); err != nil {
			continue
		}
		if name, err := os.Readlink(fmt.Sprint("/proc/self/fd/", stream)); err == nil {
			if fd, err := cloneNode(name); err == nil {
				d.console = fd
			}
		}
		return
	}
}

func cloneNode(path string) (int, error) {
	src, err := openObject(path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(src)
	fd, err := cloneTree(src, false)
	if err != nil {
		return -1, fmt.Errorf("copying %s: %w", path, err)
	}
	return fd, nil
}

// mount puts the new /dev in place.
func (d *deviceNodes) mount(restrict attributeSetter) error {
	dev, err := newFilesystem("tmpfs", attrNoSuid, [2]string{"mode", "0755"}, [2]string{"size", "256k"})
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	for _, l := range deviceLinks {
		if err := unix.Symlinkat(l[0], dev, l[1]); err != nil {
			return fmt.Errorf("making /dev/%s: %w", l[1], err)
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := unix.Mkdirat(dev, name, 0o755); err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
	}
	if err := attachAt(dev, "/dev"); err != nil {
		return err
	}
	if err := d.mountNodes(dev, restrict); err != nil {
		return err
	}
	if err := mountTerminals(); err != nil {
		return err
	}
	if err := mountSharedMemory(); err != nil {
		return err
	}
	// The directory itself needs no writes; /dev/shm and /dev/pts are mounts of
	// their own and stay writable.
	if err := restrict(dev, attrReadOnly, false); err != nil {
		return fmt.Errorf("making /dev read-only: %w", err)
	}
	return nil
}

// mountNodes shows the host's device nodes. Their mounts are read-only, which
// devices do not mind: it keeps root from changing the mode of the host's node.
func (d *deviceNodes) mountNodes(dev int, restrict attributeSetter) error {
	if d.console >= 0 {
		d.names = append(d.names, "console")
		d.nodes = append(d.nodes, d.console)
	}
	for i, name := range d.names {
		if err := unix.Mknodat(dev, name, unix.S_IFREG|0o666, 0); err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
		err := attachAt(d.nodes[i], "/dev/"+name)
		if err == nil {
			err = restrict(d.nodes[i], attrReadOnly|attrNoSuid, false)
		}
		unix.Close(d.nodes[i])
		if err != nil {
			return fmt.Errorf("showing /dev/%s: %w", name, err)
		}
	}
	return nil
}

func mountTerminals() error {
	fd, err := newFilesystem("devpts", attrNoSuid|attrNoExec, [2]string{"newinstance", ""}, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return attachAt(fd, "/dev/pts")
}

func mountSharedMemory() error {
	fd, err := newFilesystem("tmpfs", attrNoSuid|attrNoDev, [2]string{"mode", "1777"})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return attachAt(fd, "/dev/shm")
}
