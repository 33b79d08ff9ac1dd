package reply

import (
	"cmp"
	"strings"
)

// Subject is what a refusal is about. Where a body speaks of several, the
// lowest counts: the order is that of the decision.
type Subject uint8

const (
	_ Subject = iota
	Load
	Size
	ClusterOff   // streaming ingestion is switched off at the cluster
	PolicyOff    // no policy allows streaming into the table
	Missing      // database, table or mapping not found; or just created and not yet known
	Denied       // the identity has no role there
	BadMapping   // mapping or format cannot be used
	UpdatePolicy // the table's update policy is broken
	Passing      // a fault of the service that goes away
	EmptyStream  // not one usable record
	BadRecord    // the data
)

// clues are texts that tell what a text with one of them in it is about. The first that is found counts.
type clues []struct {
	words string
	about Subject
}

// find returns the subject that a text tells; 0 if it holds none of the clues.
func (c clues) find(text string) Subject {
	for _, clue := range c {
		if strings.Contains(text, clue.words) {
			return clue.about
		}
	}
	return 0
}

// codeParts are parts of documented and reported error codes, in lower case.
var codeParts = clues{
	{"throttl", Load}, {"toomanyrequests", Load}, {"too many requests", Load},
	{"inputstreamtoolarge", Size}, {"filetoolarge", Size}, {"payloadtoolarge", Size}, {"0x80da0009", Size},
	{"streamingingestiondisabled", ClusterOff}, {"streamingingestionfunctionalitydisabled", ClusterOff},
	{"streamingingestionpolicynotenabled", PolicyOff},
	{"entitynotfound", Missing}, {"notexist", Missing}, {"mappingreferencewasnotfound", Missing},
	{"invalidmappingreference", Missing},
	{"accessdenied", Denied}, {"forbidden", Denied}, {"notauthorized", Denied},
	{"emptymappingreference", BadMapping}, {"invalidmapping", BadMapping}, {"inconsistentmapping", BadMapping},
	{"formatnotsupported", BadMapping}, {"missingmappin", BadMapping},
	{"updatepolicy_queryschema", UpdatePolicy}, {"updatepolicy_badrequest", UpdatePolicy}, {"updatepolicy_cyclic", UpdatePolicy},
	{"internalservererror", Passing}, {"transientschemamismatch", Passing}, {"faileddescendanttransaction", Passing},
	{"outofmemory", Passing}, {"databaseundermaintenance", Passing},
	{"norecordsorwrongformat", EmptyStream}, {"nodatatoingest", EmptyStream}, {"emptyblob", EmptyStream},
	{"invalidblob", BadRecord}, {"wrongnumberoffields", BadRecord}, {"closingquotemissing", BadRecord},
	{"unexpectedcharacterininputstream", BadRecord}, {"propertybagtoolarge", BadRecord},
	{"0x80da0008", BadRecord}, {"0x80da000b", BadRecord}, {"0x80da000e", BadRecord},
}

// wholeCodes are codes too short to look for inside others.
var wholeCodes = map[string]Subject{"timeout": Passing, "unknown": Passing}

// phrases are words of messages that tell as much as a code, in lower case.
// Names in quotes are taken out of a message before they are looked for.
var phrases = clues{
	{"aborted due to throttling", Load},
	{"payload is too large", Size}, {"payload too large", Size}, {"request entity too large", Size},
	{"input stream is too large", Size}, {"input stream too large", Size},
	{"streaming ingestion is disabled", ClusterOff}, {"streaming ingestion is not enabled on the cluster", ClusterOff},
	{"streaming ingestion is not enabled", PolicyOff}, {"streaming ingestion policy is not enabled", PolicyOff},
	{"streamingingestion policy is not enabled", PolicyOff},
	{"is not authorized to perform", Denied},
	{"can't determine row store", Passing}, {"database metadata is unavailable", Passing},
	{"input stream is empty after processing", EmptyStream},
}

// aboutCodes returns the subject (what an error is about, such as Missing) of these error codes,
// and the code that it came from. If they have several, the lowest counts, since the subjects are
// in the order of their importance. The result is 0 and "" if no code is known.
func aboutCodes(codes []string) (about Subject, code string) {
	for _, c := range codes {
		s := subjectOf(strings.ToLower(c))
		if s != 0 && (about == 0 || s < about) {
			about, code = s, c
		}
	}
	return about, code
}

// subjectOf returns the subject of an error code of Kusto: what the error is about, such as Load or
// Missing. code must be in lower case; the result is 0 if the code is not known.
func subjectOf(code string) Subject { return cmp.Or(codeParts.find(code), wholeCodes[code]) }

// aboutProse returns the subject of an error message: what the error is about, such as Load or
// Missing. prose must be in lower case; the result is 0 if it contains no known phrase.
func aboutProse(prose string) Subject {
	about := phrases.find(prose)
	if about == 0 && strings.Contains(prose, "entity id") && strings.Contains(prose, "was not found") {
		return Missing
	}
	return about
}
