package supervisord

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/transport"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/sleep"
)

// askCoordinatorEvery is the pause between two checks whether the roster names a waiting supervisor.
const askCoordinatorEvery = time.Second

// Joined reports whether the stored rosters of a data directory name its supervisor. Such a supervisor needs
// no token.
func Joined(data string) bool {
	path := filepath.Join(data, supervisorKeyFile)
	if _, err := os.Stat(path); err != nil {
		return false
	}
	key, err := sshsig.LoadOrCreateKey(path)
	if err != nil {
		return false
	}
	rosters, err := config.FindRosters(data)
	if err != nil {
		return false
	}
	latest, err := rosters.Latest()
	return err == nil && latest != nil && latest.Datacenters.Of(daemon.PublicKey(key)) != nil
}

// trustedRosters returns the rosters of the trusted cluster. A flag, the token or the data directory names the cluster.
func (s *Supervisor) trustedRosters(ctx context.Context, store daemon.Store) (config.Rosters, error) {
	pin := s.Cluster
	if s.Token != nil {
		if pin != "" && pin != s.Token.Pin {
			return config.Rosters{}, writ.Errorf(writ.CodeTokenInvalid, "the token is for the cluster %s, not for %s",
				s.Token.Pin, pin)
		}
		pin = s.Token.Pin
	}
	kept, err := config.FindRosters(s.Data)
	switch {
	case err == nil && pin != "" && kept.Cluster != pin:
		return kept, writ.Errorf(writ.CodeConflict, "%s belongs to the cluster %s", s.Data, kept.Cluster).
			WithHint("use another --data for this cluster")
	case err == nil:
		return kept, nil
	case writ.CodeOf(err) != writ.CodeNotFound:
		return kept, err
	case pin == "":
		return kept, s.missingRosters(ctx, store)
	}
	return config.RostersIn(s.Data, pin), nil
}

// awaitDatacenter returns the datacenter of this key in the roster. If the roster lacks the key, it registers with the
// coordinators and waits.
func (s *Supervisor) awaitDatacenter(
	ctx context.Context, rosters config.Rosters, key ed25519.PrivateKey,
) (*identity.Datacenter, error) {
	public := daemon.PublicKey(key)
	latest, err := rosters.Latest()
	if err != nil {
		return nil, err
	}
	if latest != nil {
		if d := latest.Datacenters.Of(public); d != nil {
			return d, nil
		}
	}
	switch {
	case len(s.Coordinators) == 0:
		return nil, writ.Errorf(writ.CodeUsage,
			"no coordinator is given, and the roster does not name this supervisor").
			WithHint("--coordinator URL")
	case !writ.ValidName(s.Name):
		return nil, writ.Errorf(writ.CodeUsage, "%q cannot be the name of a datacenter", s.Name).
			WithHint("--dc takes 1 to 63 lower-case letters, digits and hyphens")
	}
	registration := s.registration(public)
	by := coordinators(rosters)
	defer by.CloseIdleConnections()
	logged := ""
	for {
		d, err := s.ask(ctx, by, rosters, registration)
		if d != nil || err != nil && !writ.AsError(err).Retryable() {
			return d, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		state, attributes := "waiting until the roster names this supervisor: a root operator adds it with `writ dc add`", []any{
			"name", s.Name, "fingerprint", sshsig.Fingerprint(public),
		}
		if err != nil {
			state, attributes = "no coordinator answers; trying again", append(attributes, "err", err)
		}
		if state != logged {
			logged = state
			s.Log.InfoContext(ctx, state, attributes...)
		}
		if sleep.For(ctx, askCoordinatorEvery) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// coordinators returns a client for the coordinators that the rosters name.
func coordinators(rosters config.Rosters) *http.Client {
	return &http.Client{Transport: &transport.Transport{
		Rosters: rosters, Anchor: identity.Anchor{Cluster: rosters.Cluster}, Want: transport.Coordinator,
		Fetch: transport.FromCoordinator, PublicNames: true,
	}}
}

// registration returns the request for a place in the roster. Its proof shows to the creator of the token that the
// sender holds the token.
func (s *Supervisor) registration(public ed25519.PublicKey) api.NewRegistration {
	r := api.NewRegistration{Name: s.Name, Key: public, Nonce: identity.NewChallenge(), URL: s.nodeAPI()}
	if s.Token != nil {
		r.Token = s.Token.ID
		r.Proof = s.Token.Prove(identity.RegistrationText(r.Token, r.Name, public, r.Nonce))
	}
	return r
}

// ask fetches new rosters from the first coordinator that answers. If they lack the key, it registers there.
func (s *Supervisor) ask(
	ctx context.Context, by *http.Client, rosters config.Rosters, registration api.NewRegistration,
) (*identity.Datacenter, error) {
	var last error
	for _, address := range s.Coordinators {
		d, err := askOne(ctx, by, address, rosters, registration)
		if d != nil || err == nil {
			return d, nil
		}
		if last == nil || writ.AsError(last).Retryable() { // a final error wins over a temporary one
			last = err
		}
	}
	return nil, last
}

func askOne(
	ctx context.Context, by *http.Client, address string, rosters config.Rosters, registration api.NewRegistration,
) (*identity.Datacenter, error) {
	client, err := apiclient.NewClient(address, apiclient.WithHTTPClient(by))
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%q is not the address of a coordinator: %v", address, err)
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	after := 0
	if latest, err := rosters.Latest(); err != nil {
		return nil, err
	} else if latest != nil {
		after = latest.Version
	}
	answer, err := api.Answer[api.Rosters](client.GetRoster(ctx, &api.GetRosterParams{After: &after}))
	if err != nil {
		return nil, err
	}
	latest, err := rosters.Add(answer.Signed...)
	if err != nil {
		return nil, err
	}
	if latest != nil {
		if d := latest.Datacenters.Of(registration.Key); d != nil {
			return d, nil
		}
	}
	_, err = api.Answer[api.Registration](client.Register(ctx, registration))
	if writ.CodeOf(err) == writ.CodeConflict { // the key was added to the roster meanwhile: the next check finds it
		return nil, nil
	}
	return nil, err
}
