package herodb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// client speaks the Redis protocol (RESP2) with a database: one request at a time, and only the parts of the protocol
// that the driver needs.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

// answerTime limits the time for one answer. A database answers in microseconds, even while it loads data.
const answerTime = 10 * time.Second

// errLong is the error for an answer that is too long.
var errLong = fmt.Errorf("the answer exceeds %d bytes", maxAnswer)

// maxNesting limits the levels of lists in an answer.
const maxNesting = 5

// errNested is the error for an answer with more than maxNesting levels of lists.
var errNested = fmt.Errorf("the answer has more than %d levels of lists", maxNesting)

// refusal is an error answer, such as "NOAUTH Authentication required.".
type refusal string

func (r refusal) Error() string { return string(r) }

// refused reports whether an error is an error answer of a kind, such as "NOAUTH".
func refused(err error, kind string) bool {
	r, ok := errors.AsType[refusal](err)
	word, _, _ := strings.Cut(string(r), " ")
	return ok && word == kind
}

// maxAnswer limits the size of an answer, in bytes. INFO, the longest answer to the driver, has about 6 KiB.
const maxAnswer int64 = 1 << 20

// ask sends a command and returns its answer: a string, an int64, nil, or a []any of these.
func (c *client) ask(ctx context.Context, words ...string) (any, error) {
	deadline := time.Now().Add(answerTime)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	_, err := io.WriteString(c.conn, b.String())
	var answer any
	if err == nil {
		left := maxAnswer
		answer, err = readAnswer(c.r, &left, 0)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answer, err
}

// text sends a command and returns its answer. It returns an error if the answer is not a string.
func (c *client) text(ctx context.Context, words ...string) (string, error) {
	answer, err := c.ask(ctx, words...)
	s, ok := answer.(string)
	if err == nil && !ok {
		err = fmt.Errorf("unexpected answer to %s: %v", words[0], answer)
	}
	return s, err
}

// info returns the fields of INFO.
func (c *client) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := c.text(ctx, "INFO", section)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

func (c *client) close() { _ = c.conn.Close() }

// readAnswer reads one value and subtracts its size from the limit `left`. The server may be a foreign process on the
// port, so the input is untrusted.
func readAnswer(r *bufio.Reader, left *int64, depth int) (any, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	const value = 32 // memory overhead of one value, in bytes
	if *left -= int64(len(line)) + value; *left < 0 {
		return nil, errLong
	}
	head := strings.TrimSuffix(string(line), "\r\n")
	if len(head) == len(line) || head == "" {
		return nil, fmt.Errorf("the server speaks another protocol: %q", line)
	}
	kind, rest := head[0], head[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, refusal(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the server speaks another protocol: %q", head)
	}
	switch {
	case kind == ':':
		return n, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return nil, nil
	case n < 0:
		return nil, fmt.Errorf("the server speaks another protocol: %q", head)
	case depth >= maxNesting:
		return nil, errNested
	case n > *left:
		return nil, errLong
	case kind == '$':
		*left -= n
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		var list []any
		for range n {
			v, err := readAnswer(r, left, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, fmt.Errorf("the server speaks another protocol: %q", head)
}
