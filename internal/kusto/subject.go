package kusto

import "strings"

// subject is what a refusal is about. Where a body speaks of several, the
// lowest counts: the order is that of the decision.
type subject uint8

const (
	_ subject = iota
	load
	size
	clusterOff   // streaming ingestion is switched off at the cluster
	policyOff    // no policy allows streaming into the table
	missing      // database, table or mapping not found; or just created and not yet known
	denied       // the identity has no role there
	badMapping   // mapping or format cannot be used
	updatePolicy // the table's update policy is broken
	passing      // a fault of the service that goes away
	emptyStream  // not one usable record
	badRecord    // the data
)

// codeParts are parts of documented and reported error codes, in lower case.
var codeParts = []struct {
	part  string
	about subject
}{
	{"throttl", load}, {"toomanyrequests", load}, {"too many requests", load},
	{"inputstreamtoolarge", size}, {"filetoolarge", size}, {"payloadtoolarge", size}, {"0x80da0009", size},
	{"streamingingestiondisabled", clusterOff}, {"streamingingestionfunctionalitydisabled", clusterOff},
	{"streamingingestionpolicynotenabled", policyOff},
	{"entitynotfound", missing}, {"notexist", missing}, {"mappingreferencewasnotfound", missing},
	{"invalidmappingreference", missing},
	{"accessdenied", denied}, {"forbidden", denied}, {"notauthorized", denied},
	{"emptymappingreference", badMapping}, {"invalidmapping", badMapping}, {"inconsistentmapping", badMapping},
	{"formatnotsupported", badMapping}, {"missingmappin", badMapping},
	{"updatepolicy_queryschema", updatePolicy}, {"updatepolicy_badrequest", updatePolicy}, {"updatepolicy_cyclic", updatePolicy},
	{"internalservererror", passing}, {"transientschemamismatch", passing}, {"faileddescendanttransaction", passing},
	{"outofmemory", passing}, {"databaseundermaintenance", passing},
	{"norecordsorwrongformat", emptyStream}, {"nodatatoingest", emptyStream}, {"emptyblob", emptyStream},
	{"invalidblob", badRecord}, {"wrongnumberoffields", badRecord}, {"closingquotemissing", badRecord},
	{"unexpectedcharacterininputstream", badRecord}, {"propertybagtoolarge", badRecord},
	{"0x80da0008", badRecord}, {"0x80da000b", badRecord}, {"0x80da000e", badRecord},
}

// wholeCodes are codes too short to look for inside others.
var wholeCodes = map[string]subject{"timeout": passing, "unknown": passing}

// phrases are words of messages that tell as much as a code, in lower case.
// Names in quotes are taken out of a message before they are looked for.
var phrases = []struct {
	words string
	about subject
}{
	{"aborted due to throttling", load},
	{"payload is too large", size}, {"payload too large", size}, {"request entity too large", size},
	{"input stream is too large", size}, {"input stream too large", size},
	{"streaming ingestion is disabled", clusterOff}, {"streaming ingestion is not enabled on the cluster", clusterOff},
	{"streaming ingestion is not enabled", policyOff}, {"streaming ingestion policy is not enabled", policyOff},
	{"streamingingestion policy is not enabled", policyOff},
	{"is not authorized to perform", denied},
	{"can't determine row store", passing}, {"database metadata is unavailable", passing},
	{"input stream is empty after processing", emptyStream},
}

// aboutCodes is what the codes are about, and the code that told.
func aboutCodes(codes []string) (about subject, code string) {
	for _, c := range codes {
		s := subjectOf(strings.ToLower(c))
		if s != 0 && (about == 0 || s < about) {
			about, code = s, c
		}
	}
	return about, code
}

func subjectOf(code string) subject {
	for _, k := range codeParts {
		if strings.Contains(code, k.part) {
			return k.about
		}
	}
	return wholeCodes[code]
}

// aboutProse is what a message is about, 0 if it does not tell.
func aboutProse(prose string) subject {
	for _, p := range phrases {
		if strings.Contains(prose, p.words) {
			return p.about
		}
	}
	if strings.Contains(prose, "entity id") && strings.Contains(prose, "was not found") {
		return missing
	}
	return 0
}
