package herodb

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"writ"

	"github.com/google/go-cmp/cmp"
)

func answerOf(text string) (any, error) {
	left := maxAnswer
	return readAnswer(bufio.NewReader(strings.NewReader(text)), &left, 0)
}

// A list of many values that are each short enough is rejected, because it could use any amount of memory.
func TestWholeAnswerIsBounded(t *testing.T) {
	one := "$65536\r\n" + strings.Repeat("x", 65536) + "\r\n"
	for _, text := range []string{"*1000\r\n" + strings.Repeat(one, 1000), "*100000\r\n" + strings.Repeat("*0\r\n", 100000)} {
		if _, err := answerOf(text); !errors.Is(err, errLong) {
			t.Errorf("%.20q… of %d bytes: %v", text, len(text), err)
		}
	}
}

func TestRejectedAnswersNameTheirFault(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("*1\r\n", 6): errNested.Error(),
		"$1048577\r\n":              errLong.Error(),
		"$-2\r\n":                   "another protocol",
		"HTTP/1.1 400\r\n":          "another protocol",
	} {
		if _, err := answerOf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := answerOf(strings.Repeat("*1\r\n", 5) + ":1\r\n"); errors.Is(err, errNested) {
		t.Errorf("the deepest list: %v", err)
	}
}

func TestAnswersAreRead(t *testing.T) {
	for text, want := range map[string]any{
		"+PONG\r\n":                            "PONG",
		":42\r\n":                              int64(42),
		"$5\r\na\r\nbc\r\n":                    "a\r\nbc",
		"$-1\r\n":                              nil,
		"*2\r\n$1\r\na\r\n*1\r\n:1\r\n":        []any{"a", []any{int64(1)}},
		"*-1\r\n":                              nil,
		"-NOAUTH Authentication required.\r\n": refusal("NOAUTH Authentication required."),
	} {
		got, err := answerOf(text)
		if err != nil {
			got = err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// FuzzAnswers reads any input of a foreign server. Reading must end, and must not use more memory than the input has
// bytes.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{"+PONG\r\n", "$5\r\nabcde\r\n", "*2\r\n:1\r\n-ERR x\r\n", "*1048576\r\n", "$9999999999\r\n", "HTTP/1.1 400\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "\r\n", "$-2\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := answerOf(text)
		if err != nil && v != nil {
			t.Errorf("%q is both %v and %v", text, v, err)
		}
	})
}

func TestVersionsAreCompared(t *testing.T) {
	for _, c := range []struct {
		asked, version string
		fits           bool
	}{{"7", "7.0.15", true}, {"7.0", "7.0.15", true}, {"7.0.15", "7.0.15", true}, {"7.0.1", "7.0.15", false}, {"", "7.0.15", true}, {"8", "7.0.15", false}, {"7", unknownVersion, false}} {
		if got := (writ.Engine{Version: c.version}).IsVersion(c.asked); got != c.fits {
			t.Errorf("%q fits %q: %t", c.asked, c.version, got)
		}
	}
}
