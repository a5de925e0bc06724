package inside

import (
	"errors"
	"io"
	"testing"

	"golang.org/x/sys/unix"
)

// The last words of a half that ends arrive, even if it left packets unread.
func TestLastMessageArrives(t *testing.T) {
	for range 100 {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := fds[0], fds[1]
		if err := SendMessage(ours, MessageGo, nil); err != nil {
			t.Fatal(err)
		}
		if err := SendMessage(theirs, MessageFailed, []byte("why")); err != nil {
			t.Fatal(err)
		}
		unix.Close(theirs)
		kind, body, _, err := ReceiveMessage(ours)
		if err != nil || kind != MessageFailed || string(body) != "why" {
			t.Fatalf("received %c %q, %v", kind, body, err)
		}
		if _, _, _, err := ReceiveMessage(ours); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last message: %v", err)
		}
		unix.Close(ours)
	}
}
