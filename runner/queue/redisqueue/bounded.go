package redisqueue

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// What nodes put into Redis is theirs to choose: a field of a message can have 512 MiB, and a message a million fields. So the connections on which
// streams are read go through a filter that keeps the replies of Redis within bounds before anything of them is in memory. What is too much is read and thrown away, in
// pieces, and a short mark stands in its place.

// The bounds of a reply. A string longer than maxString is replaced by a mark, and so is one longer than maxShort once the reply has maxReply bytes;
// a list of connections that is longer than maxString keeps its users only;
// a list with more than maxNested entries, so deep in a reply that only the fields of a message are there, is replaced by an empty one.
const (
	maxString = 5<<20 + 64<<10 // more than queue.MaxBody
	maxReply  = 8 << 20
	maxShort  = 1 << 10
	maxNested = 64
	nestedAt  = 3 // lists around it, at least
)

// maxHeader bounds the first line of what is not a string of given length. Redis writes short ones.
const maxHeader = 64 << 10

// errReply is the end of a connection whose replies cannot be followed.
var errReply = errors.New("a reply of Redis cannot be followed")

// Marks begin with something that nobody knows, so that no node can write one.
var (
	markPrefix = "writ:" + randomHex() + ":"
	markLarge  = markPrefix + "large:" // and the length of what it stands for; what usersOf keeps of it may be in the next lines
	markLater  = markPrefix + "later:" // likewise: to be read in another reply
)

func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// marked returns what a mark stands for, and its length; ok is false if text is none.
func marked(text string) (later bool, size int64, ok bool) {
	if !strings.HasPrefix(text, markPrefix) {
		return false, 0, false
	}
	text, _, _ = strings.Cut(text, "\n")
	if rest, is := strings.CutPrefix(text, markLater); is {
		return true, number(rest), true
	}
	rest, ok := strings.CutPrefix(text, markLarge)
	return false, number(rest), ok
}

// dialing opens connections, as net.Dialer.DialContext.
type dialing func(ctx context.Context, network, address string) (net.Conn, error)

// dialBounded makes connections be read through the filter.
func dialBounded(dial dialing) dialing {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		b := &boundedConn{Conn: conn}
		if raw, ok := conn.(syscall.Conn); ok { // go-redis looks whether an idle connection has ended
			return struct {
				*boundedConn
				syscall.Conn
			}{b, raw}, nil
		}
		return b, nil
	}
}

// boundedConn is a connection to Redis whose replies are bounded. It follows RESP 2 and 3.
type boundedConn struct {
	net.Conn
	buffer [32 << 10]byte
	out    []byte // to be handed out
	head   []byte // the beginning of a line whose end has not come

	pass, drop int64    // bytes of a string that are still to be handed out, or not
	mark       []byte   // that takes the place of the bytes to be dropped, behind them: nothing of a reply may be left when its end is handed out
	users      *usersOf // in these bytes; may be nil
	lists      []nest   // around what comes next
	dropping   int      // so many of them, the innermost ones, are not handed out
	size       int64    // of the reply so far
}

// nest is a list of a reply with so many entries to come.
type nest struct{ left int64 }

func (c *boundedConn) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if c.pass > 2 && c.dropping == 0 && len(p) > 0 { // in the middle of a string; its last two bytes end it
			n, err := c.Conn.Read(p[:min(int64(len(p)), c.pass-2)])
			c.pass -= int64(n)
			c.size += int64(n)
			return n, err
		}
		n, err := c.Conn.Read(c.buffer[:])
		if n > 0 {
			if failed := c.follow(c.buffer[:n]); failed != nil {
				return 0, failed
			}
		}
		if err != nil && len(c.out) == 0 {
			return 0, err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// follow goes on with what came.
func (c *boundedConn) follow(in []byte) error {
	c.out = c.out[:0]
	for len(in) > 0 {
		switch {
		case c.pass > 0:
			n := min(c.pass, int64(len(in)))
			c.emit(in[:n])
			in = in[n:]
			if c.pass -= n; c.pass == 0 {
				c.end()
			}
		case c.drop > 0:
			n := min(c.drop, int64(len(in)))
			if c.users != nil {
				c.users.write(in[:n])
			}
			in = in[n:]
			if c.drop -= n; c.drop == 0 {
				if c.users != nil {
					c.mark = append(append(c.mark, '\n'), c.users.text...)
				}
				c.users = nil
				c.emit(asBulk(c.mark))
				c.end()
			}
		default:
			i := bytes.IndexByte(in, '\n')
			if i < 0 {
				if len(c.head)+len(in) > maxHeader {
					return errReply
				}
				c.head = append(c.head, in...)
				return nil
			}
			line := in[:i+1]
			if len(c.head) > 0 {
				line = append(c.head, line...)
				c.head = nil
			}
			in = in[i+1:]
			if err := c.line(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// emit hands something out, unless it is in a list that is not.
func (c *boundedConn) emit(b []byte) {
	if c.dropping == 0 {
		c.out = append(c.out, b...)
		c.size += int64(len(b))
	}
}

// line takes the first line of an element.
func (c *boundedConn) line(line []byte) error {
	switch line[0] {
	case '$', '=', '!':
		n, err := length(line)
		switch {
		case err != nil:
			return err
		case n < 0:
			c.emit(line)
			c.end()
			return nil
		case n > maxString:
			c.replace(markLarge, n)
		case n > maxShort && c.size > maxReply:
			c.replace(markLater, n)
		default:
			c.emit(line)
			c.pass = n + 2
			return nil
		}
		c.drop = n + 2
	case '*', '~', '>', '%':
		n, err := length(line)
		if err != nil {
			return err
		}
		if line[0] == '%' {
			n *= 2
		}
		switch {
		case n <= 0:
			c.emit(line)
			c.end()
		case c.dropping > 0:
			c.dropping++
			c.lists = append(c.lists, nest{n})
		case n > maxNested && len(c.lists) >= nestedAt:
			c.dropping++
			c.lists = append(c.lists, nest{n})
		default:
			c.emit(line)
			c.lists = append(c.lists, nest{n})
		}
	default: // all that is one line
		c.emit(line)
		c.end()
	}
	return nil
}

// replace has a mark handed out instead of a string, with the users that are in it: of a list of connections all. What a message has is not read.
func (c *boundedConn) replace(mark string, n int64) {
	c.mark = strconv.AppendInt([]byte(mark), n, 10)
	switch {
	case len(c.lists) == 0:
		c.users = new(usersOf)
	case len(c.lists) < nestedAt:
		c.users = &usersOf{most: 1}
	}
}

// asBulk is a string as Redis sends it.
func asBulk(text []byte) []byte {
	return slices.Concat([]byte("$"+strconv.Itoa(len(text))+"\r\n"), text, []byte("\r\n"))
}

// end ends an element, and the lists that end with it.
func (c *boundedConn) end() {
	for len(c.lists) > 0 {
		last := &c.lists[len(c.lists)-1]
		if last.left--; last.left > 0 {
			return
		}
		c.lists = c.lists[:len(c.lists)-1]
		if c.dropping--; c.dropping == 0 {
			c.emit([]byte("*0\r\n"))
		}
		c.dropping = max(c.dropping, 0)
	}
	c.size = 0
}

// length reads the number of a line, -1 for nothing.
func length(line []byte) (n int64, err error) {
	digits := line[1:]
	for len(digits) > 0 && (digits[len(digits)-1] == '\n' || digits[len(digits)-1] == '\r') {
		digits = digits[:len(digits)-1]
	}
	if len(digits) == 2 && digits[0] == '-' && digits[1] == '1' {
		return -1, nil
	}
	if len(digits) == 0 || len(digits) > 12 {
		return 0, errReply
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, errReply
		}
		n = n*10 + int64(d-'0')
	}
	return n, nil
}
