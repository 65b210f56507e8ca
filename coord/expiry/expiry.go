// Package expiry selects the items of a coordinator or datacenter that expire and need a person before that: boot
// tokens, batches and certificates. It does no I/O. Package identity does the same for a roster.
package expiry

import (
	"fmt"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity/expiring"
)

// batchWarning is the time before the end of a batch at which it needs a person. A batch lasts at most a day, so an
// earlier warning would be too early.
const batchWarning = time.Hour

// Tokens returns the tokens of boot servers that have not expired. It omits tokens of nodes, which last at most a day
// and are replaced when needed. A revoked token counts as expired.
func Tokens(datacenter string, all []writ.JoinToken, now time.Time) (ends []expiring.Item) {
	for _, t := range all {
		if t.Uses == 0 && t.Expires.After(now) {
			ends = append(ends, expiring.Item{
				What: fmt.Sprintf("the token %s of a boot server of %s", t.ID, datacenter), At: t.Expires,
				Renew: fmt.Sprintf("writ token create --role boot-server --dc %s, and start the boot server with the new token",
					datacenter),
			})
		}
	}
	return ends
}

// Batches returns the batches that end within an hour and have not admitted all their nodes.
func Batches(datacenter string, all []api.Batch, now time.Time) (ends []expiring.Item) {
	for _, b := range all {
		left := b.Until.Sub(now)
		if !b.Revoked.IsZero() || b.Void != "" || len(b.Admitted) >= b.Max || left <= 0 || left > batchWarning {
			continue
		}
		ends = append(ends, expiring.Item{
			What: fmt.Sprintf("the batch %s of %s, which has admitted %d of %d nodes,", b.ID, datacenter, len(b.Admitted),
				b.Max),
			At: b.Until,
			Renew: fmt.Sprintf("writ batch create --dc %s, with the serial numbers of the machines that are missing",
				datacenter),
		})
	}
	return ends
}

// Certificates returns the certificates of a coordinator or datacenter. The owner renews them automatically in the last
// third of their validity, so a warning means that the renewal fails.
func Certificates(owner string, all []writ.Certificate) (ends []expiring.Item) {
	for _, c := range all {
		if c.Until.IsZero() { // unknown
			continue
		}
		e := expiring.Item{What: fmt.Sprintf("the certificate of the %s of %s", c.Of, owner), Since: c.From, At: c.Until}
		switch c.Of {
		case "public":
			e = ForBrowsers(c.From, c.Until)
		case "coordinator":
			e.Renew = fmt.Sprintf("read the log of the coordinator %s, which renews it by itself", owner)
		default:
			e.Renew = fmt.Sprintf("read the log of the supervisor of %s, which renews it by itself", owner)
		}
		ends = append(ends, e)
	}
	return ends
}

// ForBrowsers returns the certificate that a coordinator shows to browsers. An operator renews it.
func ForBrowsers(from, until time.Time) expiring.Item {
	return expiring.Item{
		What: "the certificate for browsers", Since: from, At: until,
		Renew: "replace the files of --tls-cert and --tls-key, which the coordinator reads again by itself",
	}
}
