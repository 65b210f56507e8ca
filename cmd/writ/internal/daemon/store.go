package daemon

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"writ"
)

// place is where a daemon keeps its records: a file in its data directory, or a database on a PostgreSQL server.
type place struct {
	path string    // what a store is opened with
	lock io.Closer // of the file; a database may have several users
}

// openPlace finds the place of a store and takes it for this process if it can have only one. address is empty, the postgres:// URL of a
// database, or @FILE with such a URL.
func openPlace(data, file, flag, address string) (place, error) {
	if text, ok := strings.CutPrefix(address, "@"); ok {
		read, err := os.ReadFile(text)
		if err != nil {
			return place{}, writ.Errorf(writ.CodeUsage, "cannot read the address of the store: %v", err)
		}
		return server(strings.TrimSpace(string(read)), flag)
	}
	if address != "" {
		if u, err := url.Parse(address); err == nil && (hasPassword(u) || u.Query().Has("password")) {
			return place{}, writ.Errorf(writ.CodeUsage, "there is a password in --%s, where every user of this machine can read it", flag).
				WithHint("put the password into ~/.pgpass or the file that PGPASSFILE names, or the whole address into a file: --%s @FILE", flag)
		}
		return server(address, flag)
	}
	lock, err := lockStore(data, file)
	if err != nil {
		return place{}, err
	}
	return place{filepath.Join(data, file), lock}, nil
}

func server(address, flag string) (place, error) {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return place{}, writ.Errorf(writ.CodeUsage, "--%s takes the address of a PostgreSQL database", flag).
			WithHint("postgres://user@host/database; without it the store is a file in --data")
	}
	return place{address, io.NopCloser(nil)}, nil
}

func hasPassword(u *url.URL) bool {
	_, has := u.User.Password()
	return has
}
