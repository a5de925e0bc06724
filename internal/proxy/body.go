package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

var errBadChunk = errors.New("malformed chunked body")

// body reads one message's body without its framing. Read returns io.EOF at the
// proper end only: a body that is cut off is io.ErrUnexpectedEOF.
type body struct {
	r *bufio.Reader
	// before is called before a read that may have to wait; nil for nothing.
	before func()

	framing  framing
	untilEnd bool  // the end of the connection ends the body
	left     int64 // of the body when it is sized, of the chunk when it is chunked
	inChunk  bool  // a chunk's end is still to be read
	done     bool
}

// newBody returns the body that a framing declares. Without a declaration a
// request has none and a response goes on until its connection ends.
func newBody(r *bufio.Reader, f framing, response bool) *body {
	b := &body{r: r, framing: f, left: f.length}
	b.untilEnd = response && !f.sized && !f.chunked
	b.done = f.sized && f.length == 0 || !response && !f.sized && !f.chunked
	return b
}

func (b *body) Read(p []byte) (int, error) {
	if b.before != nil && !b.done {
		b.before()
	}
	if !b.done && b.framing.chunked && b.left == 0 {
		if err := b.nextChunk(); err != nil {
			return 0, noEOF(err)
		}
	}
	if b.done {
		return 0, io.EOF
	}
	if !b.untilEnd && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	switch {
	case b.untilEnd:
		b.done = errors.Is(err, io.EOF)
		return n, err
	case b.framing.sized && b.left == 0:
		b.done = true
		return n, nil
	case n > 0:
		return n, nil
	}
	return 0, noEOF(err)
}

// noEOF turns the end of the connection into the error of a cut body.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// nextChunk reads the end of the last chunk and the size of the next. After the
// last one it reads the trailer, which goes no further: the filter has judged
// the request by its head.
func (b *body) nextChunk() error {
	if b.inChunk {
		var end [2]byte
		if _, err := io.ReadFull(b.r, end[:]); err != nil {
			return err
		}
		if string(end[:]) != "\r\n" {
			return errBadChunk
		}
	}
	n, err := readChunkSize(b.r)
	if err != nil {
		return err
	}
	b.left, b.inChunk = n, true
	if n == 0 {
		if err := skipTrailer(b.r); err != nil {
			return err
		}
		b.done = true
	}
	return nil
}

func readChunkSize(r *bufio.Reader) (int64, error) {
	text, err := readLine(r)
	if err != nil {
		return 0, err
	}
	size, _, _ := strings.Cut(string(text), ";")
	size = strings.TrimRight(size, " \t")
	if size == "" || strings.Trim(size, "0123456789abcdefABCDEF") != "" {
		return 0, errBadChunk
	}
	n, err := strconv.ParseInt(size, 16, 63)
	if err != nil {
		return 0, errBadChunk
	}
	return n, nil
}

// readLine reads a line without its end. It must fit the buffer.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errBadChunk
	}
	if err != nil {
		return nil, err
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || bytes.ContainsAny(text, "\r\x00") {
		return nil, errBadChunk
	}
	return text, nil
}

func skipTrailer(r *bufio.Reader) error {
	for size := 0; size <= maxHead; {
		line, err := readLine(r)
		if err != nil || len(line) == 0 {
			return err
		}
		size += len(line)
	}
	return errBadChunk
}

// copyBody forwards a body, as chunks when chunked is set, and passes on what
// has come in before it waits for more. The errors of the two sides are apart,
// because they mean different things: a body that cannot be read to its end is
// not completed.
func (s *Session) copyBody(w *bufio.Writer, b *body, chunked bool) (read, write error) {
	buf, ok := s.buffers.Get().(*[copyBuffer]byte)
	if !ok {
		buf = new([copyBuffer]byte)
	}
	defer s.buffers.Put(buf)
	for {
		n, err := b.Read(buf[:])
		if n > 0 {
			writePart(w, buf[:n], chunked)
		}
		if errors.Is(err, io.EOF) {
			if chunked {
				w.WriteString("0\r\n\r\n")
			}
			return nil, w.Flush()
		}
		if err != nil || b.r.Buffered() == 0 || chunkEnded(b) {
			if err := w.Flush(); err != nil {
				return nil, err
			}
		}
		if err != nil {
			return err, nil
		}
	}
}

// chunkEnded tells where a sender pauses: what is buffered then may be no more
// than the beginning of the next chunk.
func chunkEnded(b *body) bool { return b.framing.chunked && b.left == 0 }

func writePart(w *bufio.Writer, part []byte, chunked bool) {
	if chunked {
		fmt.Fprintf(w, "%x\r\n", len(part))
	}
	w.Write(part)
	if chunked {
		w.WriteString("\r\n")
	}
}
