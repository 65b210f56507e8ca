package logfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"writ/internal/test/testenv"
	"writ/sal/catalog"
	"writ/sal/logfile"
)

func newLog(t testing.TB) *logfile.Log {
	return &logfile.Log{Path: filepath.Join(t.TempDir(), "x.log"), Stream: "s"}
}

func say(t testing.TB, l *logfile.Log, text string) {
	t.Helper()
	f, err := os.OpenFile(l.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func part(t testing.TB, l *logfile.Log, want catalog.LogPart) catalog.LogText {
	t.Helper()
	if want.Lines == 0 {
		want.Lines = 1000
	}
	p, err := l.Part(&want)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func putAside(t testing.TB, l *logfile.Log) {
	t.Helper()
	if err := l.PutAside(); err != nil {
		t.Fatal(err)
	}
}

// whole reads a log to its end, in parts of 1 KiB, and reports whether something was lost.
func whole(t testing.TB, l *logfile.Log, after string) (text string, lost bool) {
	t.Helper()
	for range 100_000 {
		p := part(t, l, catalog.LogPart{After: after, MaxKiB: 1})
		if len(p.Text) > 1<<10 {
			t.Fatalf("a part of 1 KiB has %d bytes", len(p.Text))
		}
		text, lost, after = text+p.Text, lost || p.Lost, p.Next
		if !p.More {
			return text, lost
		}
	}
	t.Fatal("it has no end")
	return "", false
}

func TestEndOfALogIsItsLastLines(t *testing.T) {
	l := newLog(t)
	if p := part(t, l, catalog.LogPart{}); p.Text != "" || p.More || p.Lost || p.Next == "" {
		t.Errorf("part of an empty log = %+v", p)
	}
	say(t, l, "one\ntwo\n")
	putAside(t, l)
	say(t, l, "thr\x00ee\xff\nfo")
	for lines, want := range map[int64]string{1: "fo", 2: "three?\nfo", 3: "two\nthree?\nfo", 1000: "one\ntwo\nthree?\nfo"} {
		if p := part(t, l, catalog.LogPart{Lines: lines}); p.Text != want || p.More || p.Lost {
			t.Errorf("the last %d: %+v, want %q", lines, p, want)
		}
	}
	say(t, l, strings.Repeat("x", 5000)+"\nlast\n")
	if p := part(t, l, catalog.LogPart{MaxKiB: 1}); p.Text != "last\n" {
		t.Errorf("the last KiB: %q", p.Text)
	}
}

// The end of a log never has a part of a secret, wherever the log is cut.
func TestEndOfLogHidesSecrets(t *testing.T) {
	l := newLog(t)
	if text, err := l.End(10); text != "" || err != nil {
		t.Errorf("an empty log ends with %q, %v", text, err)
	}
	l.Secrets = logfile.Secrets{"s3cr3t-and-long": "<secret a>", "s3cr3t": "<secret b>"}
	say(t, l, "one s3cr3t-and-long two s3cr")
	putAside(t, l)
	say(t, l, "3t é\xff\x00 three s3cr3t\n")
	whole := "one <secret a> two <secret b> é? three <secret b>\n"
	for most := range int64(80) {
		text, err := l.End(most)
		if err != nil || int64(len(text)) > most || strings.Contains(text, "s3c") || strings.Contains(text, "r3t") || strings.Contains(text, "and-long") {
			t.Errorf("the last %d bytes: %q, %v", most, text, err)
		}
		if most > 60 && text != whole {
			t.Errorf("the last %d bytes: %q, want %q", most, text, whole)
		}
	}
}

func TestLogIsReadFromAPosition(t *testing.T) {
	l := newLog(t)
	say(t, l, "one\ntwo\nthree\n")
	next := part(t, l, catalog.LogPart{Lines: 1}).Next
	if more, err := l.Written(next); more || err != nil {
		t.Errorf("Written at the end = true, %v", err)
	}
	if p := part(t, l, catalog.LogPart{After: next}); p.Text != "" || p.Next != next || p.Lost || p.More {
		t.Errorf("behind all: %+v", p)
	}
	say(t, l, "four\nfive\nsi")
	putAside(t, l)
	say(t, l, "x\nseven")
	for _, want := range []catalog.LogText{{Text: "four\nfive\n", More: true}, {Text: "six\nseven"}, {}} {
		if more, err := l.Written(next); more != (want.Text != "") || err != nil {
			t.Errorf("Written = %t, %v", more, err)
		}
		p := part(t, l, catalog.LogPart{After: next, Lines: 2})
		next, p.Next = p.Next, ""
		if p != want {
			t.Errorf("got %+v, want %+v", p, want)
		}
	}
}

func TestLostPartsOfALogAreReported(t *testing.T) {
	l := newLog(t)
	say(t, l, "one\n")
	next := part(t, l, catalog.LogPart{}).Next
	say(t, l, "two\nha")
	putAside(t, l)
	say(t, l, "lf\nthree\n")
	if p := part(t, l, catalog.LogPart{After: next}); p.Text != "two\nhalf\nthree\n" || p.Lost {
		t.Errorf("nothing is lost yet: %+v", p)
	}
	putAside(t, l)
	say(t, l, "four\n")
	if p := part(t, l, catalog.LogPart{After: next}); p.Text != "three\nfour\n" || !p.Lost {
		t.Errorf("a half line is gone: %+v", p)
	}
	if p := part(t, l, catalog.LogPart{Lines: 2}); p.Text != "three\nfour\n" || p.Lost {
		t.Errorf("its end: %+v", p)
	}
	other := logfile.Log{Path: l.Path, Stream: "another"}
	for name, after := range map[string]string{
		"of another log": next, "behind the end": strings.Split(part(t, &other, catalog.LogPart{}).Next, "-")[0] + "-999999", "of no log": "x",
	} {
		p := part(t, &other, catalog.LogPart{After: after})
		if p.Text != "three\nfour\n" || !p.Lost {
			t.Errorf("a position %s: %+v", name, p)
		}
		if again := part(t, &other, catalog.LogPart{After: p.Next}); again.Text != "" || again.Lost {
			t.Errorf("on from there: %+v", again)
		}
	}
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(l.Path)); len(left) > 0 || err != nil {
		t.Errorf("removed it leaves %v, %v", left, err)
	}
}

// For any sequence of writes, PutAside calls and reads, the text equals what was written, byte for byte, unless a loss
// is reported.
func TestALogIsReadAsItWasWritten(t *testing.T) {
	testenv.CheckProperty(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		l := &logfile.Log{Path: filepath.Join(dir, "x.log"), Stream: "s", Secrets: map[string]string{"secret-1": "(one)", "two\nlines": "(two)"}}
		var wrote, told strings.Builder
		next := part(t, l, catalog.LogPart{}).Next
		var ends []int // ends of the parts that were put aside; the log begins at the last but one
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				putAside(t, l)
				if len(ends) == 0 || ends[len(ends)-1] < wrote.Len() {
					ends = append(ends, wrote.Len())
				}
			case 1, 2, 3:
				text := rapid.SampledFrom([]string{"a\n", "secr", "et-1", "ü", "\xc3", "\xbc", "two", "\n", "lines", strings.Repeat("long ", 300), "\U0001F600 x\n"}).Draw(r, "text")
				say(t, l, text)
				wrote.WriteString(text)
			default:
				_, number, _ := strings.Cut(next, "-")
				at, _ := strconv.Atoi(number)
				gone := len(ends) > 1 && at < ends[len(ends)-2]
				p := part(t, l, catalog.LogPart{After: next, Lines: rapid.Int64Range(1, 4).Draw(r, "lines"), MaxKiB: rapid.Int64Range(0, 2).Draw(r, "KiB")})
				told.WriteString(p.Text)
				if next = p.Next; p.Lost != gone {
					r.Fatalf("lost = %t", p.Lost)
				}
				if gone {
					return
				}
			}
		}
		if len(ends) > 1 {
			return
		}
		say(t, l, ".\n")
		wrote.WriteString(".\n")
		rest, lost := whole(t, l, next)
		want := strings.ToValidUTF8(strings.NewReplacer("secret-1", "(one)", "two\nlines", "(two)").Replace(wrote.String()), "?")
		// Adjacent invalid bytes become one mark, or two if they arrive in two parts.
		squeeze := func(s string) string {
			for strings.Contains(s, "??") {
				s = strings.ReplaceAll(s, "??", "?")
			}
			return s
		}
		if got := told.String() + rest; squeeze(got) != squeeze(want) || lost {
			r.Fatalf("read %q, lost %t, want %q", got, lost, want)
		}
	})
}

// A client may send any position, and the rest of a log may begin anywhere. Only secrets have capitals and digits here.
func TestNoPositionRevealsASecret(t *testing.T) {
	secrets := map[string]string{"HUNTER2": "(a)", "ABXA": "(b)", "K1\nK2\nK3": "(c)", "7": "(d)"}
	quiet := func(l *logfile.Log, after string, lines int64) {
		t.Helper()
		p := part(t, l, catalog.LogPart{After: after, Lines: lines, MaxKiB: 1})
		if strings.ContainsAny(p.Text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") {
			t.Errorf("part after %q = %q", after, p.Text)
		}
	}
	const text = "password is HUNTER2! ABXA\nABXAABXA\nK1\nK2\nK3\nK1\nK2\nK3 7\nend"
	for n := range len(text) + 1 {
		l := newLog(t)
		l.Secrets = secrets
		say(t, l, text[:n])
		stream, _, _ := strings.Cut(part(t, l, catalog.LogPart{}).Next, "-")
		for at := range n + 1 {
			for lines := range int64(3) {
				quiet(l, fmt.Sprintf("%s-%d", stream, at), lines+1)
			}
		}
		for lines := range int64(3) {
			quiet(l, "", lines+1)
		}
		putAside(t, l)
		say(t, l, text[n:]+"\n")
		putAside(t, l)
		say(t, l, "more\n")
		quiet(l, stream+"-0", 1000)
		quiet(l, "", 1000)
	}
}

// The end of an output may begin anywhere.
func TestEndOfATextRevealsNoSecret(t *testing.T) {
	secrets := logfile.Secrets{"HUNTER2": "(a)", "ABXA": "(b)", "K1\nK2\nK3": "(c)"}
	const text = "password is HUNTER2! ABXA\nABXABXA\nK1\nK2\nK3\nK1\nK2\nK3 end"
	for n := range len(text) {
		shown := secrets.HideEnd([]byte(text[n:]))
		if strings.ContainsAny(strings.Replace(shown, "BXA", "", 1), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") || !strings.HasSuffix(text, shown[max(0, len(shown)-1):]) {
			t.Errorf("from byte %d on it is %q", n, shown)
		}
	}
	if shown := secrets.HideEnd([]byte("all of HUNTER2 is known")); shown != "all of (a) is known" {
		t.Errorf("it is %q", shown)
	}
}

func TestLogEndingWithASecretIsReadToItsEnd(t *testing.T) {
	l := newLog(t)
	l.Secrets = map[string]string{"abca": "(one)"}
	say(t, l, "abca")
	if p := part(t, l, catalog.LogPart{Lines: 10}); p.Text != "(one)" {
		t.Errorf("it tells %q", p.Text)
	}
}

// A file that was put aside may have lost its end in a power cut.
func TestLogEndIsAfterMissingBytes(t *testing.T) {
	l := newLog(t)
	l.Secrets = map[string]string{strings.Repeat("s", 100): "(one)"}
	if err := os.WriteFile(l.Path+".0-2000", []byte(strings.Repeat("before\n", 268)), 0o600); err != nil {
		t.Fatal(err)
	}
	say(t, l, strings.Repeat("since\n", 166))
	if p := part(t, l, catalog.LogPart{Lines: 3, MaxKiB: 1}); p.Text != "since\nsince\nsince\n" {
		t.Errorf("it tells %q", p.Text)
	}
}

func TestWrittenZerosAreContent(t *testing.T) {
	l := newLog(t)
	say(t, l, "one\n")
	after := part(t, l, catalog.LogPart{}).Next
	say(t, l, "\x00two\nthree\n")
	if p := part(t, l, catalog.LogPart{After: after}); p.Text != "two\nthree\n" || p.Lost {
		t.Errorf("text = %q, lost = %t", p.Text, p.Lost)
	}
}

// A reader concurrent with PutAside gets each line once, or a report of lost lines.
func TestALogIsReadWhileItIsPutAside(t *testing.T) {
	l := newLog(t)
	const lines = 3000
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range lines {
			say(t, l, fmt.Sprintf("line %d\n", i))
			if i%50 == 49 {
				if err := l.PutAside(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	next, expect := part(t, l, catalog.LogPart{After: "x"}).Next, 0
	next = strings.Split(next, "-")[0] + "-0"
	for ended := false; ; {
		select {
		case <-done:
			ended = true
		default:
		}
		p := part(t, l, catalog.LogPart{After: next})
		for line := range strings.Lines(p.Text) {
			var n int
			if _, err := fmt.Sscanf(line, "line %d\n", &n); err != nil || n < expect || n > expect && !p.Lost {
				t.Fatalf("line %d is followed by %q, lost: %t", expect-1, line, p.Lost)
			}
			expect = n + 1
		}
		next = p.Next
		if ended && p.Text == "" {
			break
		}
	}
	if expect != lines {
		t.Errorf("it ends with line %d", expect-1)
	}
}
