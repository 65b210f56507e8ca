package decision

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/supervisor/answers"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// Limits of the listed tokens. The tokens with the latest expiry are listed.
const (
	maxTokens     = 200
	maxBootTokens = 50
)

// Tokens creates, revokes and lists the join tokens of nodes and the tokens of boot servers. All fields are required.
type Tokens struct {
	Journal    *journal.Journal
	Answers    *answers.Store
	Datacenter writ.DatacenterID
	// JoinedWith returns the names of the nodes that a token admitted.
	JoinedWith func(token string) []string
	// EndOf returns the end of a token. It is earlier than `expires` if the maker of the token has lost the right to
	// create tokens.
	EndOf func(maker string, expires time.Time) time.Time
	// BootTokenRevoked is called after a token was revoked. It discards the report of the token's boot server.
	BootTokenRevoked func(token string)
}

// Create carries out a statement that creates a token.
func (t *Tokens) Create(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	grant, err := identity.ParseTokenGrant(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	does := "admits one node"
	switch {
	case grant.Role == identity.TokenRoleBoot:
		does = "lets a boot server report"
	case grant.Uses > 1:
		does = fmt.Sprintf("admits %d nodes", grant.Uses)
	}
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject,
		Done:    fmt.Sprintf("token %s %s until %s", grant.ID, does, grant.Expires.Format(time.RFC3339)),
	}
	err = t.Journal.Write(failpoint.At(ctx, failpoint.TokenMade), func(tx *journal.Tx) error {
		if err := addToken(tx, grant, v.Signer); err != nil {
			return err
		}
		return t.Answers.Record(tx, v, &answer)
	})
	return answer, err
}

// addToken stores a token by its role. Tokens of boot servers have their own table and therefore never admit a node.
func addToken(tx *journal.Tx, grant identity.TokenGrant, signer string) error {
	if grant.Role == identity.TokenRoleBoot {
		return tx.AddBootToken(&journal.BootToken{ID: grant.ID, Key: grant.Key[:], CreatedBy: signer, Expires: grant.Expires})
	}
	return tx.AddToken(journal.Token{
		ID: grant.ID, Key: grant.Key[:], CreatedBy: signer, Expires: grant.Expires, Uses: grant.Uses,
	})
}

// Revoke carries out a statement that ends a token: the token admits no further nodes, and further reports of its boot
// server are rejected. Nodes that the token admitted stay.
func (t *Tokens) Revoke(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := v.Statement.ID()
	answer := link.StatementAnswer{Subject: v.Statement.Subject}
	err := t.Journal.Write(failpoint.At(ctx, failpoint.TokenRevoked), func(tx *journal.Tx) error {
		token, err := tx.Token(id)
		var ofBoot *journal.BootToken
		if err == nil {
			ofBoot, err = tx.BootToken(id)
		}
		if err == nil && token == nil && ofBoot == nil {
			err = writ.Errorf(writ.CodeNotFound, "this datacenter has no token %s", id).
				WithHint("`writ token list` lists the tokens")
		}
		if err == nil && ofBoot != nil {
			answer.Done = fmt.Sprintf("token %s, made by %s, is revoked; its boot server can report no more", id,
				ofBoot.CreatedBy)
			err = tx.RevokeBootToken(ofBoot)
		}
		if err == nil && token != nil {
			answer.Done = fmt.Sprintf("token %s, made by %s, is revoked and admits no more nodes", id, token.CreatedBy)
			_, err = tx.RevokeToken(id) // false for a token that has ended already
		}
		if err != nil {
			return err
		}
		return t.Answers.Record(tx, v, &answer)
	})
	if err == nil {
		t.BootTokenRevoked(id)
	}
	return answer, err
}

// List returns the tokens with the nodes that they admitted. Tokens of boot servers admit no nodes.
func (t *Tokens) List(ctx context.Context) ([]writ.JoinToken, error) {
	list := []writ.JoinToken{}
	err := t.Journal.Read(ctx, func(tx *journal.Tx) error {
		tokens, err := tx.Tokens(maxTokens)
		for _, token := range tokens {
			nodes := t.JoinedWith(token.ID)
			list = append(list, writ.JoinToken{
				ID: token.ID, Datacenter: t.Datacenter, CreatedBy: token.CreatedBy,
				Expires: t.EndOf(token.CreatedBy, token.Expires), Uses: token.Uses, Used: len(nodes), Nodes: nodes,
			})
		}
		if err != nil {
			return err
		}
		ofBoot, err := tx.BootTokens(maxBootTokens)
		for _, token := range ofBoot {
			list = append(list, writ.JoinToken{
				ID: token.ID, Datacenter: t.Datacenter, CreatedBy: token.CreatedBy,
				Expires: t.EndOf(token.CreatedBy, token.Expires), Nodes: []string{},
			})
		}
		return err
	})
	return list, err
}
