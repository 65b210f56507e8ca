package ledger

import (
	"context"
	"time"
)

// Webhooks stores the progress of each webhook, by the name that an operator gave it.
type Webhooks interface {
	// WebhookAt returns the progress of a webhook, nil for a new one.
	WebhookAt(ctx context.Context, name string) (*WebhookPlace, error)
	// SetWebhookAt stores the progress of a webhook, even if it is earlier than the stored one.
	SetWebhookAt(ctx context.Context, name string, at WebhookPlace) error
}

// WebhookPlace is the progress of a webhook through the events.
type WebhookPlace struct {
	Event int64 // id of the last event that was delivered or skipped
	// Lost holds the nodes that were lost at that event, "DATACENTER/NODE", with the time of their last beat.
	Lost map[string]time.Time
}
