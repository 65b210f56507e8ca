package coord

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"writ"
	"writ/ledger/sqlstore"
)

// slowReader is a ResponseWriter that accepts a large response only when the test ends.
type slowReader struct {
	*httptest.ResponseRecorder
	writing chan<- *slowReader
	read    <-chan struct{}
}

func (s *slowReader) Write(b []byte) (int, error) {
	if len(b) > 1<<20 {
		s.writing <- s
		<-s.read
	}
	return s.ResponseRecorder.Write(b)
}

// TestAnswersToSlowReadersTakeBoundedMemory has one person request many large pages without reading them. Another
// person is served meanwhile.
func TestAnswersToSlowReadersTakeBoundedMemory(t *testing.T) {
	const readers, fit = 8, 3
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := startNamed(t, func(c *Config) { c.Ledger = store }, func(c *Coordinator) { c.front.Answers.Size = 9 << 20 / 2 })
	node := writ.Node{ID: "n1", Name: "n1", Datacenter: vienna, Admission: writ.AdmissionApproved, Health: writ.Health{Fault: strings.Repeat("x", 1<<20)}}
	if err := store.StoreEvents(t.Context(), vienna, []writ.Event{{Journal: "j", Seq: 1, Node: &node}}); err != nil {
		t.Fatal(err)
	}
	writing, read, done := make(chan *slowReader), make(chan struct{}), make(chan int)
	ask := func(token string) {
		r := httptest.NewRequest(http.MethodGet, p.PublicURL+"/v1/nodes", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := &slowReader{httptest.NewRecorder(), writing, read}
		p.Handler().ServeHTTP(w, r)
		done <- w.Code
	}
	alice, bob := p.token("alice"), p.token("bob")
	held, refused := 0, 0
	for range readers {
		go ask(alice)
		select {
		case <-writing:
			held++
		case status := <-done:
			if refused++; status != http.StatusTooManyRequests {
				t.Errorf("an answer without room: %d", status)
			}
		}
	}
	if held != fit || refused != readers-fit {
		t.Errorf("%d answers of a person are held and %d refused, want %d and %d", held, refused, fit, readers-fit)
	}
	go ask(bob)
	select {
	case <-writing:
		held++
	case status := <-done:
		t.Errorf("another person gets %d", status)
	}
	close(read)
	for range held {
		if status := <-done; status != http.StatusOK {
			t.Errorf("an answer that was read: %d", status)
		}
	}
	if taken := p.front.Answers.Taken(); taken != 0 {
		t.Errorf("%d bytes stay held", taken)
	}
}
