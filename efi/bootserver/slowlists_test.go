package bootserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"writ/efi/progress"
)

// slowReader is a ResponseWriter that takes a list only when the test ends.
type slowReader struct {
	*httptest.ResponseRecorder
	writing chan<- struct{}
	read    <-chan struct{}
}

func (s *slowReader) Write(b []byte) (int, error) {
	if s.Code == http.StatusOK {
		s.writing <- struct{}{}
		<-s.read
	}
	return s.ResponseRecorder.Write(b)
}

// TestListsForSlowOperatorsAreBounded fills the table with machines. One address does not read its lists, and another
// address still gets the list.
func TestListsForSlowOperatorsAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	for n := range MaxMachines {
		f.machines.update(fmt.Sprintf("52:54:00:00:%02x:%02x", n>>8, n&255), "192.0.2.1:1", f.now, func(m *Machine) {
			m.report(progress.Report{Stage: progress.StageStart, Text: strings.Repeat("x", progress.MaxText)}, f.now)
		})
	}
	list, err := json.Marshal(f.List())
	if err != nil {
		t.Fatal(err)
	}
	f.answers.Size = len(list) * 9 / 2
	writing, read, done := make(chan struct{}), make(chan struct{}), make(chan int)
	ask := func(remote string) (status int) {
		go func() {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+ListPath, nil)
			r.RemoteAddr = remote
			w := &slowReader{httptest.NewRecorder(), writing, read}
			f.ForOperators().ServeHTTP(w, r)
			done <- w.Code
		}()
		select {
		case <-writing:
			return 0
		case status := <-done:
			return status
		}
	}
	held, refused := 0, 0
	for range 5 {
		switch status := ask("192.0.2.1:1"); status {
		case 0:
			held++
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Errorf("a list: %d", status)
		}
	}
	if held != 3 || refused != 2 {
		t.Errorf("%d lists of an address are held and %d refused", held, refused)
	}
	if status := ask("198.51.100.1:1"); status != 0 {
		t.Fatalf("a list of another address: %d", status)
	}
	close(read)
	for range held + 1 {
		<-done
	}
	if f.answers.Taken() != 0 {
		t.Errorf("%d bytes stay held", f.answers.Taken())
	}
}
