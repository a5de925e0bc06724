package proxy

import (
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Whatever a query looks like, it gets an address for a name that is allowed or none.
func TestHostileQueries(t *testing.T) {
	r := newRig(t, setup{allow: []string{"*.a.test"}})
	d := r.s.NewDirect(Invocation{})
	const plain, address, internet = "\x01x\x01a\x04test\x00", 1, 1
	query := func(questions, flags uint16, name string, kind, class uint16, rest string) []byte {
		b := binary.BigEndian.AppendUint16([]byte{0, 7}, flags)
		b = append(binary.BigEndian.AppendUint16(b, questions), 0, 0, 0, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(append(b, name...), kind)
		return append(binary.BigEndian.AppendUint16(b, class), rest...)
	}
	long := strings.Repeat("\x3f"+strings.Repeat("a", 63), 4)
	for name, c := range map[string]struct {
		query []byte
		want  int // addresses
	}{
		"plain":              {query(1, 0x100, plain, address, internet, ""), 1},
		"mixed case":         {query(1, 0x100, "\x01X\x01a\x04TeSt\x00", address, internet, ""), 1},
		"more questions":     {query(2, 0x100, plain, address, internet, "\x04evil\x03com\x00\x00\x01\x00\x01"), 1},
		"too many questions": {query(65535, 0x100, plain, address, internet, ""), 1},
		"junk behind":        {query(1, 0x100, plain, address, internet, "junk"), 1},
		"transfer":           {query(1, 0x100, plain, 252, internet, ""), 0},
		"chaos":              {query(1, 0x100, plain, address, 3, ""), 0},
		"any class":          {query(1, 0x100, plain, address, 255, ""), 0},
		"update":             {query(1, 0x2800, plain, address, internet, ""), 0},
		"response":           {query(1, 0x8100, plain, address, internet, ""), 0},
		"pointer to itself":  {query(1, 0x100, "\xc0\x0c", address, internet, ""), 0},
		"pointer to a loop":  {query(1, 0x100, "\x01x\xc0\x0c", address, internet, ""), 0},
		"dots in a label":    {query(1, 0x100, "\x08x.a.test\x00", address, internet, ""), 0},
		"NUL":                {query(1, 0x100, "\x09evil.com\x00\x01a\x04test\x00", address, internet, ""), 0},
		"line end":           {query(1, 0x100, "\x03x\r\n\x01a\x04test\x00", address, internet, ""), 0},
		"blank":              {query(1, 0x100, "\x03x y\x01a\x04test\x00", address, internet, ""), 0},
		"too long":           {query(1, 0x100, long+plain, address, internet, ""), 0},
		"no name":            {query(1, 0x100, "\x00", address, internet, ""), 0},
		"no question":        {query(0, 0x100, "", address, internet, ""), 0},
		"oversized":          {query(1, 0x100, plain, address, internet, strings.Repeat("x", maxQuery)), 0},
	} {
		var m dnsmessage.Message
		reply := d.answerQuery(c.query)
		if (reply == nil) != (name == "response") { // two servers must not answer each other
			t.Errorf("%s: answered with %x", name, reply)
		}
		if reply != nil {
			if err := m.Unpack(reply); err != nil || len(reply) > maxQuery {
				t.Errorf("%s: %d bytes, %v", name, len(reply), err)
			}
		}
		if len(m.Answers) != c.want {
			t.Errorf("%s: %v", name, m.Answers)
		}
	}
	if len(r.lookups) != 0 {
		t.Errorf("queries of the sandbox were passed on: %v", r.lookups)
	}
}
