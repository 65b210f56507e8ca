package supervisord

import (
	"context"
	"errors"
	"path/filepath"

	"writ"
	"writ/cmd/writ/internal/daemon"
	"writ/identity/chain"
	"writ/supervisor/journal"
)

// rosterFolder is the folder of the rosters in a data directory.
const rosterFolder = "rosters"

// Used reports whether a supervisor has worked with a data directory before.
func Used(data string) bool {
	return daemon.Exists(filepath.Join(data, supervisorJournal)) || daemon.Exists(filepath.Join(data, markFile))
}

// missingRosters returns the error for a supervisor that has no roster and was not given the id of its cluster. It is
// USAGE for a new supervisor, otherwise DATA_INCOMPLETE with the id in the journal.
func (s *Supervisor) missingRosters(ctx context.Context, store daemon.Store) *writ.Error {
	cluster, err := clusterInJournal(ctx, store)
	if !Used(s.Data) && (err != nil || cluster == "") {
		return writ.Errorf(writ.CodeUsage, "the supervisor does not know which cluster to trust: %s has no roster",
			s.Data).
			WithHint("if it ran before, --data must name its directory; start a new one with the --join that `writ dc add` prints, " +
				"or with --cluster and the cluster's id, and add its key with `writ dc add --key`")
	}
	missing := daemon.Incomplete(s.Data, rosterFolder, "the supervisor has worked with this directory before")
	if err != nil || cluster == "" {
		return missing.WithHint("start it with --cluster ID as well: it gets the rosters from its coordinators. " +
			"`writ context list -o wide` shows the id on a machine that uses the cluster")
	}
	return missing.WithHint("start it with --cluster %s as well: it gets the rosters from its coordinators. The id is from the journal: "+
		"compare it first with `writ context list -o wide`, where you work with the cluster", cluster)
}

// clusterInJournal returns the cluster of the newest roster in a journal, "" without a valid one. It verifies no
// signature.
func clusterInJournal(ctx context.Context, store daemon.Store) (cluster writ.ClusterID, err error) {
	open := journal.OpenToRead
	if store.File != "" {
		if !daemon.Exists(store.File) {
			return "", nil
		}
		open = journal.Open
	}
	j, err := open(ctx, store.Path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	err = j.Read(ctx, func(tx *journal.Tx) error {
		version, err := tx.RosterVersion()
		if err != nil || version == 0 {
			return err
		}
		signed, err := tx.Roster(version)
		if err != nil {
			return err
		}
		cluster, err = chain.Cluster(signed)
		return err
	})
	// The id is shown to people, and the database is not trusted, so an invalid id is dropped.
	if _, invalid := writ.ParseDigest(string(cluster)); invalid != nil {
		return "", err
	}
	return cluster, err
}
