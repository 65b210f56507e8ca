package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// webhookTable holds the progress of webhooks.
type webhookTable struct{ tables }

// WebhookAt returns the progress of a webhook.
func (s *webhookTable) WebhookAt(ctx context.Context, name string) (*ledger.WebhookPlace, error) {
	at, lost := new(ledger.WebhookPlace), ""
	err := s.db.QueryRow(ctx, `SELECT event, lost FROM webhooks WHERE name = $1`, name).Scan(&at.Event, &lost)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(lost), &at.Lost)
	}
	if err != nil {
		return nil, fmt.Errorf("load webhook progress: %w", err)
	}
	return at, nil
}

// SetWebhookAt stores the progress of a webhook.
func (s *webhookTable) SetWebhookAt(ctx context.Context, name string, at ledger.WebhookPlace) error {
	lost, err := json.Marshal(at.Lost)
	if err != nil {
		return fmt.Errorf("encode lost nodes: %w", err)
	}
	err = s.db.Write(failpoint.At(ctx, failpoint.WebhookTold), func(tx *sqldb.Tx) error {
		err := tx.Queue(ctx, `
			INSERT INTO webhooks (name, event, lost)
			VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET event = excluded.event, lost = excluded.lost`, name, at.Event, string(lost))
		return err
	})
	if err != nil {
		return fmt.Errorf("store webhook progress: %w", err)
	}
	return nil
}
