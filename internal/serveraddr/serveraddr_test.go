package serveraddr_test

import (
	"strings"
	"testing"

	"writ/internal/serveraddr"
)

func TestInvalidAddressKeepsItsPassword(t *testing.T) {
	for _, text := range []string{
		"redis://:hunter/2@host:6379/0", "redis://user:12/hunter@host", "redis://user:12?hunter@host", "rediss://user:12#hunter@host", "unix://:hunter/b@/run/redis.sock",
		"postgres://user:hunter%zz@host/db", "redis://:hun ter@[::1/0", "redis://user:12/a:hunter@host:6379",
	} {
		_, err := serveraddr.Parse(text)
		if err == nil || strings.Contains(err.Error(), "hun") || strings.Contains(err.Error(), "12") {
			t.Errorf("Parse(%q) = %v", text, err)
		}
		if !serveraddr.HasPassword(text) {
			t.Errorf("%q has no password", text)
		}
	}
	for _, text := range []string{"redis://user:p%2F%40@host:6379/0", "unix:///run/redis@1.sock?db=1", "postgres://host/db", "https://writ.example.org:7440"} {
		if _, err := serveraddr.Parse(text); err != nil || serveraddr.HasPassword(text) != strings.Contains(text, "p%2F") {
			t.Errorf("Parse(%q) = %v, has a password: %v", text, err, serveraddr.HasPassword(text))
		}
	}
}
