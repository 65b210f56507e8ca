package doctor

import (
	"context"
	"time"

	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/coord/expiry"
	"writ/identity/expiring"
)

// examineEnds reports boot tokens, batches and certificates that expire soon or have expired. A list that fails is
// skipped.
func examineEnds(ctx context.Context, c *client.Client, now time.Time) []finding {
	ctx, stop := context.WithTimeout(ctx, doctorPatience)
	defer stop()
	var ends []expiring.Item
	if tokens, err := api.Answer[api.TokenList](c.API.ListTokens(ctx, &api.ListTokensParams{})); err == nil {
		for _, d := range tokens.Items {
			ends = append(ends, expiry.Tokens(d.Name, d.Tokens, now)...)
		}
	}
	if batches, err := api.Answer[api.BatchList](c.API.ListBatches(ctx, &api.ListBatchesParams{})); err == nil {
		for _, d := range batches.Items {
			ends = append(ends, expiry.Batches(d.Name, d.Batches, now)...)
		}
	}
	if certificates, err := api.Answer[api.CertificateList](c.API.ListCertificates(ctx,
		&api.ListCertificatesParams{})); err == nil {
		for _, owner := range certificates.Items {
			ends = append(ends, expiry.Certificates(owner.Name, owner.Certificates)...)
		}
	}
	return findEnds(ends, now)
}

// findEnds returns a finding for each expiry that needs attention now.
func findEnds(ends []expiring.Item, now time.Time) (found []finding) {
	for _, e := range ends {
		f := finding{Check: "expiry", State: suspect, Detail: e.String(), Fix: e.Renew}
		switch {
		case e.Stage(now) == 0:
			continue
		case e.Ended(now):
			f.State, f.Detail = ill, e.What+" has expired"
		}
		found = append(found, f)
	}
	return found
}
