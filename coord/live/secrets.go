package live

import (
	"context"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// Secrets asks all datacenters, or only one, for the secrets of some projects. An empty list means all projects.
func (v *View) Secrets(
	ctx context.Context, only writ.DatacenterID, projects []writ.ProjectID,
) ([]api.DatacenterSecrets, error) {
	var asked link.Secrets // a datacenter accepts one project or all
	if len(projects) == 1 {
		asked.Project = projects[0]
	}
	answers, err := All[writ.Secret](ctx, v, only, link.VerbSecrets, asked)
	for i := range answers { // the reader's rights do not depend on the answer of the datacenter
		answers[i].Answer = slices.DeleteFunc(answers[i].Answer,
			func(s writ.Secret) bool { return len(projects) > 0 && !slices.Contains(projects, s.Project) })
	}
	return api.Views(answers, func(a Reply[[]writ.Secret]) api.DatacenterSecrets {
		return api.DatacenterSecrets{Datacenter: a.ID, Name: a.Name, Secrets: a.Answer, Error: writ.AsError(a.Err)}
	}), err
}
