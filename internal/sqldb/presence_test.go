package sqldb

import (
	"context"
	"testing"
	"time"

	"writ/internal/test/testenv"
)

// present reads Present until it has the wanted value: the server notices the end of a connection after a moment.
func present(t *testing.T, db *DB, name string, want bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		var held bool
		err := db.Write(t.Context(), func(tx *Tx) (err error) {
			held, err = Present(t.Context(), tx, name)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if held == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the presence of %q is %v", name, held)
		}
	}
}

func TestPresenceEndsWithItsStore(t *testing.T) {
	path := server.Store(t)
	holder, other, elsewhere := open(t, path), open(t, path), open(t, server.Store(t))
	for _, name := range []string{"a", "b", "b"} {
		if err := HoldPresence(t.Context(), holder, name); err != nil {
			t.Fatal(err)
		}
	}
	present(t, other, "a", false)
	present(t, other, "b", true)
	present(t, elsewhere, "b", false)
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	present(t, other, "b", false)
}

func TestPresenceReturnsWithItsServer(t *testing.T) {
	own := testenv.Postgres(t)
	db := open(t, own.Store())
	if err := HoldPresence(t.Context(), db, "a"); err != nil {
		t.Fatal(err)
	}
	own.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := HoldPresence(ctx, db, "a"); err == nil {
		t.Error("a presence without a server")
	}
	own.Start()
	again(t, db)
	if err := HoldPresence(t.Context(), db, "a"); err != nil {
		t.Fatal(err)
	}
	present(t, db, "a", true)
}
