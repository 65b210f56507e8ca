package redisqueue

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
)

// pieces is a connection whose bytes arrive in pieces of any length.
type pieces struct {
	net.Conn
	text []byte
	rand *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+p.rand.IntN(40))], p.text)
	p.text = p.text[n:]
	return n, nil
}

func filtered(t testing.TB, text string, seed uint64) string {
	t.Helper()
	c := &boundedConn{Conn: &pieces{text: []byte(text), rand: rand.New(rand.NewPCG(seed, 1))}}
	out, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func TestRepliesWithinBoundsAreLeftAsTheyAre(t *testing.T) {
	for _, text := range []string{
		"+OK\r\n", "-NOGROUP no\r\n", ":12\r\n", "_\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "%0\r\n", bulk(""), bulk("a\r\nb"), ",1.5\r\n", "#t\r\n", "=7\r\ntxt:abc\r\n",
		"*2\r\n" + bulk("a") + "*2\r\n:1\r\n%1\r\n+k\r\n*0\r\n", ">3\r\n+message\r\n+a\r\n+b\r\n",
		"%1\r\n" + bulk("key") + "*1\r\n*2\r\n" + bulk("1-0") + "*2\r\n" + bulk("b") + bulk(strings.Repeat("x", 100_000)),
		"*1\r\n*2\r\n" + bulk("key") + "*2\r\n*2\r\n" + bulk("1-0") + "*-1\r\n*2\r\n" + bulk("2-0") + "*2\r\n+b\r\n+c\r\n",
		"*1000\r\n" + strings.Repeat(":1\r\n", 1000),
	} {
		for seed := range uint64(20) {
			whole := text + "+next\r\n" + text
			if got := filtered(t, whole, seed); got != whole {
				t.Fatalf("%.60q became %.80q", whole, got)
			}
		}
	}
}

func TestAnOversizedReplyIsReplacedByAMark(t *testing.T) {
	large := strings.Repeat("x", maxString+1)
	entry := func(id, body string) string { return "*2\r\n" + bulk(id) + "*2\r\n" + bulk("b") + bulk(body) }
	head := "%1\r\n" + bulk("key")
	mark := func(mark string, n int) string { return bulk(fmt.Sprintf("%s%d", mark, n)) }

	got := filtered(t, head+"*2\r\n"+entry("1-0", large)+entry("2-0", "small")+"+OK\r\n", 1)
	want := head + "*2\r\n*2\r\n" + bulk("1-0") + "*2\r\n" + bulk("b") + mark(markLarge, len(large)) + entry("2-0", "small") + "+OK\r\n"
	if got != want {
		t.Errorf("a string that is too long became %.300q", got)
	}

	some := strings.Repeat("y", 4<<20)
	got = filtered(t, head+"*4\r\n"+entry("1-0", some)+entry("2-0", some)+entry("3-0", some)+entry("4-0", "small")+"+OK\r\n", 1)
	if want := mark(markLater, len(some)) + entry("4-0", "small") + "+OK\r\n"; !strings.HasSuffix(got, want) || strings.Count(got, some) != 2 {
		t.Errorf("of three long strings %d are left, and the end is %.200q", strings.Count(got, some), got[len(got)-200:])
	}

	fields := "*2000\r\n" + strings.Repeat(bulk("f")+"*2\r\n:1\r\n:2\r\n", 1000)
	for name, around := range map[string][2]string{
		"RESP 3": {head + "*2\r\n*2\r\n" + bulk("1-0"), "*2\r\n" + bulk("2-0") + "*2\r\n+b\r\n+c\r\n+OK\r\n"},
		"RESP 2": {"*1\r\n*2\r\n" + bulk("key") + "*2\r\n*2\r\n" + bulk("1-0"), "*2\r\n" + bulk("2-0") + "*2\r\n+b\r\n+c\r\n+OK\r\n"},
	} {
		if got, want := filtered(t, around[0]+fields+around[1], 3), around[0]+"*0\r\n"+around[1]; got != want {
			t.Errorf("%s: a message with a thousand fields became %.200q", name, got)
		}
	}
}

// FuzzReplies checks for any input that the output is limited, and independent of the pieces.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n:1\r\n"))
	f.Add([]byte("%1\r\n$3\r\nkey\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*-1\r\n"))
	f.Add([]byte("$99999999\r\nx"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var outs [2][]byte
		for i := range outs {
			c := &boundedConn{Conn: &pieces{text: bytes.Clone(text), rand: rand.New(rand.NewPCG(uint64(i), 2))}}
			outs[i], _ = io.ReadAll(c)
		}
		if n := min(len(outs[0]), len(outs[1])); !bytes.Equal(outs[0][:n], outs[1][:n]) {
			t.Errorf("%q, or %q", outs[0], outs[1])
		}
		if len(outs[0]) > 2*len(text)+len(text)*len(markLater) {
			t.Errorf("%d bytes became %d", len(text), len(outs[0]))
		}
	})
}
