package limit

import (
	"io"
	"strings"
	"testing"

	"writ"
)

func TestBodiesStayWithinTheirBound(t *testing.T) {
	b := &Bodies{Size: 1000}
	read := func(remote string, bytes int) (release func(), err error) {
		body, release := b.Meter(remote, io.NopCloser(strings.NewReader(strings.Repeat("x", bytes))))
		_, err = io.Copy(io.Discard, body)
		return release, err
	}
	empty, err := read("192.0.2.1:1", 0)
	if empty(); err != nil {
		t.Fatal(err)
	}
	var releases []func()
	for range 20 { // slow clients of one network
		release, err := read("192.0.2.1:1", 100)
		releases = append(releases, release)
		if err != nil && writ.CodeOf(err) != writ.CodeRateLimited {
			t.Fatal(err)
		}
	}
	if taken := b.Taken(); taken > 800 || taken < 700 {
		t.Errorf("one network holds %d of 1000 bytes", taken)
	}
	release, err := read("198.51.100.1:1", 50)
	if err != nil {
		t.Errorf("another network finds no room: %v", err)
	}
	release()
	for _, release := range releases {
		release()
		release() // a second call has no effect
	}
	if taken := b.Taken(); taken != 0 || len(b.has) != 0 {
		t.Errorf("%d bytes stay, of %d networks", taken, len(b.has))
	}
}
