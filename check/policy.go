package check

import (
	"context"
	"encoding/json"
	"fmt"

	"kusto-agent/batcher"
	"kusto-agent/kusto"
)

// policies looks for one that lets records stream into the table: its own, else
// that of the database.
func (v *view) policies(ctx context.Context) {
	if cluster, table := v.off(); cluster || table {
		return // the service said so itself, which the verdict tells
	}
	if v.refused == nil {
		v.tell("policy", OK, "streaming ingestion is allowed", "")
		return
	}
	for _, of := range []string{"table " + kusto.EntityName(v.in.Table), "database " + kusto.EntityName(v.in.Database)} {
		switch v.policy(ctx, of+" policy streamingingestion") {
		case "on":
			v.tell("policy", OK, "streaming ingestion is allowed by the "+of, "")
			return
		case "off":
			v.tell("policy", Error, "streaming ingestion is not allowed by the "+of, "allow it\n.alter table "+kusto.EntityName(v.in.Table)+" policy streamingingestion enable\n"+clearCache)
			return
		}
	}
	v.tell("policy", Warning, "neither the table nor its database has a policy of streaming ingestion, which only Fabric does without", "allow it\n.alter table "+kusto.EntityName(v.in.Table)+" policy streamingingestion enable\n"+clearCache)
}

func (v *view) off() (cluster, table bool) {
	if v.refused == nil {
		return false, false
	}
	return v.refused.StreamingOff()
}

// policy is what one says: on, off, or nothing.
func (v *view) policy(ctx context.Context, of string) (says string) {
	got, err := v.ask(ctx, ".show "+of)
	if err != nil {
		return ""
	}
	got.Each(func(row map[string]string) {
		var p *struct{ IsEnabled bool }
		if json.Unmarshal([]byte(row["Policy"]), &p) == nil && p != nil {
			says = map[bool]string{true: "on", false: "off"}[p.IsEnabled]
		}
	})
	return says
}

// updates tells of update policies: the rows they make count against the size of
// a request, and those that fail may fail it.
func (v *view) updates(ctx context.Context) {
	got, err := v.ask(ctx, ".show table "+kusto.EntityName(v.in.Table)+" policy update")
	if err != nil {
		return // it is the table's own business, and nobody needs it to send
	}
	enabled := 0
	got.Each(func(row map[string]string) {
		var all []struct{ IsEnabled bool }
		if json.Unmarshal([]byte(row["Policy"]), &all) == nil {
			for _, p := range all {
				if p.IsEnabled {
					enabled++
				}
			}
		}
	})
	if most := batcher.DefaultConfig().MaxSize; enabled > 0 && v.in.Batch.MaxSize*2 > most {
		v.tell("policy.update", Warning, fmt.Sprintf("the table feeds others by update policies, whose rows count in the 4 MB of a request; batch.max_size is %v", v.in.Batch.MaxSize),
			fmt.Sprintf("set batch: {max_size: %v} for this input, or less if they make more than one row of one", most/4))
	}
}
