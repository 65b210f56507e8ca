package answers

import "writ/identity"

// SignedBy formats the name of a signer for the log, with the certificate if the signer used one.
func SignedBy(name string, c *identity.Certificate) string {
	if c == nil {
		return name
	}
	return name + ", by " + c.String()
}
