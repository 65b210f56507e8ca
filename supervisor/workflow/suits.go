package workflow

import (
	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

// unsuitable returns the error of a call whose driver would reject one of its resources: an image of another format, or
// content that exceeds the size. It returns nil if the resources suit, or if too little is known about them.
func (d *Draft) unsuitable(p *ProposedCall, c *journal.Call, action writ.Action) (*writ.Error, error) {
	if p.Op.Effect != catalog.Make || action == writ.ActionUnchanged {
		return nil, nil
	}
	args := d.step.calls.withResources(p.Op, c)
	for _, field := range p.Op.Args {
		if field.Type != catalog.Handle {
			continue
		}
		have, err := d.Resource(writ.ResourceID{Project: c.Project, Kind: field.Kinds[0], Name: resourceName(args[field.Name])})
		if err != nil {
			return nil, err
		}
		if have == nil {
			continue
		}
		format, known := have.Values["format"].(string)
		if known {
			if err := catalog.WrongFormat(&field, have.ResourceID, format); err != nil {
				return err, nil
			}
		}
		if err := tooLarge(have, args["size_gib"], action); err != nil {
			return err, nil
		}
	}
	return nil, nil
}

// tooLarge returns the error of a call that would make a volume of sizeGiB from larger content.
func tooLarge(content *journal.Resource, sizeGiB any, action writ.Action) *writ.Error {
	size, given := sizeGiB.(int64)
	if !given || action != writ.ActionCreate {
		return nil
	}
	gib, _ := content.Values["size_gib"].(int64)
	mib, _ := content.Values["size_mib"].(int64)
	if size >= gib && size*1024 >= mib {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "%d GiB are too small for the content of %s", size, content.ResourceID).
		WithHint("use a larger size_gib")
}

// resourceName returns the name of the resource that an argument is a handle to or names, or "".
func resourceName(arg any) string {
	if ref, ok := arg.(map[string]any); ok {
		arg = ref["name"]
	}
	name, _ := arg.(string)
	return name
}
