package proxy

import "time"

// Sizes in bytes that hostile input is held to.
const (
	maxHead     = 16 << 10 // of one message
	maxEarly    = 64 << 10 // sent before a tunnel stands
	maxDrain    = 1 << 20  // of a refused upload, read to keep its connection
	maxReason   = 500      // of a refusal's text, in UTF-16 code units
	maxAttempts = 16       // addresses of one name that are tried
	copyBuffer  = 32 << 10
	maxInbound  = 1024    // connections to one published port
	maxBusy     = 512     // connections of one listener whose messages are being read or passed on
	maxAfter    = 4 << 10 // read at once while a head is not complete
)

// waits bound everything that may not take as long as it likes.
type waits struct {
	firstByte time.Duration // of a connection
	head      time.Duration // from its first byte to its end
	body      time.Duration // without a byte of a request's body
	keepAlive time.Duration // between two requests
	left      time.Duration // for an answer, once the client sent its last byte
	dial      time.Duration // of a whole attempt, names and upstream proxies included
	patience  time.Duration // of a decision and a dial, before it matters whether the client is still there
	stagger   time.Duration // before the next address is tried beside the last, RFC 8305
	socks     time.Duration // for a complete SOCKS request
	stranger  time.Duration // the same for clients without credentials
	linger    time.Duration // for reading what follows a final answer
	drain     time.Duration // for one direction of a tunnel after the other failed
	accept    time.Duration // after a passing failure to accept
	inbound   time.Duration // for a server inside to listen, once somebody wants to connect
	farewell  time.Duration // for inbound connections to end after the server
	close     time.Duration // for everything to end
}

func defaultWaits() waits {
	return waits{
		firstByte: 10 * time.Second, head: 60 * time.Second, body: 5 * time.Minute, keepAlive: 5 * time.Second, left: time.Minute,
		dial: 30 * time.Second, patience: 5 * time.Millisecond, stagger: 250 * time.Millisecond, socks: 10 * time.Second, stranger: 5 * time.Second,
		linger: time.Second, drain: 2 * time.Second, accept: 5 * time.Millisecond, close: 2 * time.Second,
		inbound: 10 * time.Second, farewell: time.Second,
	}
}
