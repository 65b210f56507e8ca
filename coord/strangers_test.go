package coord

import (
	"net/http"
	"testing"
)

func TestLoginsWaitForNoStranger(t *testing.T) {
	p := startNamed(t, nil, func(c *Coordinator) { c.front.Strangers.Turns.Size = 1 })
	token := p.token("alice")
	release, err := p.front.Strangers.Turns.Take(t.Context(), "a stranger's network")
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() {
		status, _ := p.as("", http.MethodGet, "/openapi.yaml")
		answered <- status
	}()
	if status, body := p.as(token, http.MethodGet, "/openapi.yaml"); status != http.StatusOK {
		t.Errorf("status %d with a login, %s", status, body)
	}
	select {
	case status := <-answered:
		t.Fatalf("a stranger got status %d before its turn", status)
	default:
	}
	release()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("status %d for the stranger", status)
	}
}

// Bodies of strangers have a separate limit, so that their rosters use no memory of logged-in people.
func TestStrangersRostersTakeBoundedMemory(t *testing.T) {
	p := startNamed(t, nil)
	p.front.Strangers.Bodies.Size = 1 << 10
	if status, _ := p.post("/v1/roster", make([]byte, 4<<10)); status != http.StatusTooManyRequests {
		t.Errorf("status %d for a body over the bound", status)
	}
}
