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

// Nodes choose the data that they write to Redis: a field of a message can have 512 MiB, and a message a million
// fields. An attacker in control of Redis chooses every reply. Therefore, the connections to Redis have a filter that
// limits replies before they reach memory. It reads and discards oversized parts in pieces and inserts a short mark
// instead. A reply beyond the limits of replyTotal ends its connection.

// Limits of a reply. A string longer than maxString is replaced by a mark. Once a reply has maxReply bytes, this
// applies to strings longer than maxShort. A list of connections longer than maxString is reduced to the names of its
// users. A list with more than maxNested entries is replaced by an empty list if at least nestedAt lists enclose it. At
// that depth, only the fields of a message are expected.
const (
	maxString = 5<<20 + 64<<10 // more than queue.MaxBody
	maxReply  = 8 << 20
	maxShort  = 1 << 10
	maxNested = 64
	nestedAt  = 3       // minimum number of enclosing lists
	maxValue  = 1 << 30 // Redis itself stores strings of at most half of this length
)

// maxHeader limits the first line of an element. Redis itself writes short lines.
const maxHeader = 64 << 10

// errReply is the error of a reply that does not follow the protocol. The connection must be closed.
var errReply = errors.New("a reply of Redis does not follow the protocol")

// Marks begin with a random text, so that a node cannot forge a mark.
var (
	markPrefix = "writ:" + randomHex() + ":"
	// The length of the replaced string follows the mark. The lines after it may hold the fields that usersOf extracted.
	markLarge = markPrefix + "large:"
	markLater = markPrefix + "later:" // the string must be read again in a later reply, because this reply is full
)

func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// marked parses a mark and returns its kind and the length of the replaced string. ok is false if text is not a mark.
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

// dialing opens connections, like net.Dialer.DialContext.
type dialing func(ctx context.Context, network, address string) (net.Conn, error)

// dialBounded adds the filter to connections.
func dialBounded(dial dialing) dialing {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return withRaw(&boundedConn{Conn: conn}, conn), nil
	}
}

// withRaw adds the raw connection of inner to conn, which wraps inner. go-redis uses it to detect closed idle connections.
func withRaw(conn, inner net.Conn) net.Conn {
	type rawConn = syscall.Conn // a name that differs from net.Conn
	raw, ok := inner.(rawConn)
	if !ok {
		return conn
	}
	return struct {
		net.Conn
		rawConn
	}{conn, raw}
}

// boundedConn is a connection to Redis with limited replies. It parses RESP 2 and 3.
type boundedConn struct {
	net.Conn
	buffer [32 << 10]byte
	out    []byte // filtered bytes for Read
	head   []byte // incomplete line

	pass, drop int64    // remaining bytes of a string to copy, or to discard
	mark       []byte   // written after the discarded bytes: a reply is complete when its end is returned
	users      *usersOf // extracts users from the discarded bytes; may be nil
	lists      []nest   // enclosing lists
	dropping   int      // number of innermost lists that are discarded
	total      replyTotal
	failed     error // the error of follow, which every later Read returns: go-redis may read again after an error
}

// nest is a list with its number of remaining entries.
type nest struct{ left int64 }

func (c *boundedConn) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if c.failed != nil {
			return 0, c.failed
		}
		if c.pass > 2 && c.dropping == 0 && len(p) > 0 { // within a string; its last two bytes are the terminator
			n, err := c.Conn.Read(p[:min(int64(len(p)), c.pass-2)])
			c.pass -= int64(n)
			c.total.bytes += int64(n)
			return n, err
		}
		n, err := c.Conn.Read(c.buffer[:])
		if n > 0 {
			if c.failed = c.follow(c.buffer[:n]); c.failed != nil {
				c.out = nil
				return 0, c.failed
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

// follow parses the next bytes.
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

// emit appends output, unless it is within a discarded list.
func (c *boundedConn) emit(b []byte) {
	if c.dropping == 0 {
		c.out = append(c.out, b...)
		c.total.bytes += int64(len(b))
	}
}

// line handles the first line of an element.
func (c *boundedConn) line(line []byte) error {
	if err := c.total.check(); err != nil {
		return err
	}
	switch line[0] {
	case '|': // an attribute of a reply; Redis sends no attributes
		return errReply
	case '$', '=', '!':
		n, err := length(line)
		switch {
		case err != nil:
			return err
		case n < 0:
			c.emit(line)
			c.end()
			return nil
		case n > maxValue:
			return errReply
		case n > maxString:
			c.replace(markLarge, n)
		case n > maxShort && c.total.bytes > maxReply:
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
		case len(c.lists) >= maxDepth:
			return errReply
		case c.dropping > 0:
			c.dropping++
			c.lists = append(c.lists, nest{n})
		case n > maxNested && len(c.lists) >= nestedAt:
			c.dropping++
			c.lists = append(c.lists, nest{n})
		default:
			if err := c.total.addEntries(n); err != nil {
				return err
			}
			c.emit(line)
			c.lists = append(c.lists, nest{n})
		}
	default: // single-line elements
		c.emit(line)
		c.end()
	}
	return nil
}

// replace replaces a string by a mark. The mark includes the names of users that the string contains: all users in a
// list of connections, the user of an entry in the ACL log, and no user for a message.
func (c *boundedConn) replace(mark string, n int64) {
	c.mark = strconv.AppendInt([]byte(mark), n, 10)
	switch {
	case len(c.lists) == 0:
		c.users = &usersOf{most: maxUsers}
	case len(c.lists) < nestedAt:
		c.users = &usersOf{most: 1}
	}
}

// asBulk encodes a string like Redis.
func asBulk(text []byte) []byte {
	return slices.Concat([]byte("$"+strconv.Itoa(len(text))+"\r\n"), text, []byte("\r\n"))
}

// end completes an element, and all lists whose last entry it is.
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
	c.total = replyTotal{}
}

// length parses the number in a line; -1 means null.
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

// Limits of a whole reply. Replies to writ are smaller, even in a datacenter of ten thousand nodes. go-redis allocates a
// list before it reads the entries, and recurses into nested lists.
const (
	maxTotal   = 64 << 20 // bytes
	maxEntries = 1 << 18  // of all lists
	maxDepth   = 32       // lists within lists
)

// errLargeReply is the error of a reply beyond the limits. The connection must be closed.
var errLargeReply = errors.New("a reply of Redis has more entries or bytes than writ reads: " +
	"someone else writes to the keys of this datacenter")

// replyTotal is the size of a reply, as far as it was read.
type replyTotal struct {
	bytes   int64 // copied for the client
	entries int64 // announced by lists that are copied
}

// addEntries adds the entries that a list announces.
func (t *replyTotal) addEntries(n int64) error {
	t.entries += n
	return t.check()
}

func (t *replyTotal) check() error {
	if t.bytes > maxTotal || t.entries > maxEntries {
		return errLargeReply
	}
	return nil
}
