package sqldb

import (
	"os"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"writ"
	"writ/internal/serveraddr"
)

// requireWritable makes the connections of a writing store skip servers that reject writes, if the address has several
// hosts. After a failover, the first host may be a standby. An address that asks for a read-only server or a standby is
// rejected.
func requireWritable(config *pgx.ConnConfig, address string) error {
	switch wanted := sessionAttributes(address); wanted {
	case "read-only", "standby", "prefer-standby":
		return writ.Errorf(writ.CodeUsage, "the address of the store has target_session_attrs=%s: such a server rejects writes",
			wanted).
			WithHint("write target_session_attrs=read-write")
	}
	if config.ValidateConnect == nil && hasSeveralHosts(config) {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return nil
}

// permitReadOnly replaces target_session_attrs=read-write by primary. Otherwise no server would match, because the
// sessions of a reading store reject writes.
func permitReadOnly(config *pgx.ConnConfig, address string) {
	if sessionAttributes(address) == "read-write" {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
}

// sessionAttributes returns the value of target_session_attrs that pgx uses.
func sessionAttributes(address string) string {
	u, err := serveraddr.Parse(address)
	if err != nil {
		return ""
	}
	wanted := os.Getenv("PGTARGETSESSIONATTRS")
	if values := u.Query()["target_session_attrs"]; len(values) > 0 {
		wanted = values[len(values)-1]
	}
	return wanted
}

// hasSeveralHosts reports whether a connection may reach different servers. Some fallbacks are the same server without
// TLS.
func hasSeveralHosts(config *pgx.ConnConfig) bool {
	return slices.ContainsFunc(config.Fallbacks, func(other *pgconn.FallbackConfig) bool {
		return other.Host != config.Host || other.Port != config.Port
	})
}
