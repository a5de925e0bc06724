package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

var errBadChunk = errors.New("malformed chunked body")

// maxTrailer bounds the trailer section of a chunked body.
const maxTrailer = maxHead

// copySized forwards exactly n bytes.
func copySized(w io.Writer, r io.Reader, n int64) error {
	_, err := io.CopyN(w, r, n)
	return err
}

// copyChunked forwards a chunked body chunk by chunk, with framing of its own:
// sizes are written anew and extensions dropped. flush is called after each
// chunk, so that streams arrive as they are sent. Trailers are dropped.
func copyChunked(w *bufio.Writer, r *bufio.Reader) error {
	for {
		n, err := readChunkSize(r)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%x\r\n", n)
		if n == 0 {
			if err := skipTrailer(r); err != nil {
				return err
			}
			w.WriteString("\r\n")
			return w.Flush()
		}
		if err := copySized(w, r, n); err != nil {
			return err
		}
		var end [2]byte
		if _, err := io.ReadFull(r, end[:]); err != nil || string(end[:]) != "\r\n" {
			return errors.Join(errBadChunk, err)
		}
		w.WriteString("\r\n")
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

func readChunkSize(r *bufio.Reader) (int64, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, errors.Join(errBadChunk, err)
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	size, _, _ := strings.Cut(text, ";")
	size = strings.TrimRight(size, " \t")
	if !ok || size == "" || strings.Trim(size, "0123456789abcdefABCDEF") != "" {
		return 0, errBadChunk
	}
	n, err := strconv.ParseInt(size, 16, 63)
	if err != nil {
		return 0, errBadChunk
	}
	return n, nil
}

func skipTrailer(r *bufio.Reader) error {
	for size := 0; size <= maxTrailer; {
		line, err := r.ReadSlice('\n')
		size += len(line)
		if err != nil {
			return errors.Join(errBadChunk, err)
		}
		if string(line) == "\r\n" {
			return nil
		}
	}
	return errBadChunk
}

// copyDecoded forwards a chunked body without its framing, to a client that
// knows no chunks.
func copyDecoded(w *bufio.Writer, r *bufio.Reader) error {
	for {
		n, err := readChunkSize(r)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.Join(skipTrailer(r), w.Flush())
		}
		if err := copySized(w, r, n); err != nil {
			return err
		}
		if _, err := r.Discard(2); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

// copyUntilEnd forwards a body that the end of the connection delimits, as
// chunks when chunked is set.
func copyUntilEnd(w *bufio.Writer, r io.Reader, chunked bool) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if chunked {
				fmt.Fprintf(w, "%x\r\n", n)
			}
			w.Write(buf[:n])
			if chunked {
				w.WriteString("\r\n")
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			if chunked {
				w.WriteString("0\r\n\r\n")
			}
			return w.Flush()
		}
		if err != nil {
			return err
		}
	}
}
