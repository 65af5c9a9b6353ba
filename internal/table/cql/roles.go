package cql

import "strings"

// Statements about roles are parsed whole, so that a wrong one is a syntax error as
// everywhere else; their effect is an error of its own.

// role parses CREATE, ALTER and DROP of ROLE and USER.
func (p *parser) role(verb string) *RoleStatement {
	s := &RoleStatement{Verb: verb, Object: "ROLE"}
	user := p.kind() == kUser
	p.advance()
	if verb == "CREATE" {
		s.IfExists = p.ifNotExists()
	} else {
		s.IfExists = p.ifExists()
	}
	if user {
		s.Object = "USER"
		s.Role = p.userName()
	} else {
		s.Role = p.roleName()
	}
	switch {
	case verb == "DROP":
	case user:
		p.userOptions()
	case p.accept(kWith):
		for ok := true; ok && !p.stopped; ok = p.accept(kAnd) {
			p.roleOption()
		}
	}
	return s
}

// userName parses the name of a user: not in quotes, and no keyword.
func (p *parser) userName() string {
	switch p.kind() {
	case tString:
		return p.stringText()
	case tIdent, tQuoted:
		s := p.nameText()
		if p.kind() == tQuoted {
			p.note("Quoted strings are are not supported for user names and USER is deprecated, please use ROLE")
		}
		p.advance()
		return s
	}
	p.noViable(p.pos, p.pos)
	return ""
}

// roleName parses the name of a role, which may be a string.
func (p *parser) roleName() string {
	if p.kind() == tString && !p.stopped {
		return p.stringText()
	}
	return p.nameOrMarker("role")
}

func (p *parser) userOptions() {
	if p.accept(kWith) {
		p.accept(kHashed)
		p.expect(kPassword)
		p.stringText()
	}
	if !p.accept(kSuperuser) {
		p.accept(kNosuperuser)
	}
}

func (p *parser) roleOption() {
	switch {
	case p.accept(kPassword):
		p.expect(tEqual)
		p.stringText()
	case p.accept(kHashed):
		p.expect(kPassword)
		p.expect(tEqual)
		p.stringText()
	case p.accept(kOptions):
		p.expect(tEqual)
		if p.kind() != tBraceOpen || p.stopped {
			p.expect(tBraceOpen)
			return
		}
		p.propertyMap()
	case p.accept(kSuperuser), p.accept(kLogin):
		p.expect(tEqual)
		p.expect(tBool)
	case p.accept(kAccess):
		p.expect(kTo)
		if p.accept(kAll) {
			p.expect(kDatacenters)
			return
		}
		p.expect(kDatacenters)
		p.expect(tBraceOpen)
		for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
			p.stringText()
		}
		p.expect(tBraceClose)
	default:
		p.noViable(p.pos, p.pos)
	}
}

var permissions = map[kind]bool{kCreate: true, kAlter: true, kDrop: true, kSelect: true, kModify: true, kAuthorize: true, kDescribe: true, kExecute: true}

// permissionList parses ALL [PERMISSIONS], or permissions.
func (p *parser) permissionList(s *RoleStatement) {
	s.Object = "PERMISSIONS"
	if p.accept(kAll) {
		p.accept(kPermissions)
		return
	}
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		if !permissions[p.kind()] {
			p.noViable(p.pos, p.pos)
			return
		}
		s.Permissions = append(s.Permissions, strings.ToUpper(p.text()))
		p.advance()
		p.accept(kPermission)
	}
}

// startsPermissions reports whether permissions follow, and not the name of a role.
func (p *parser) startsPermissions() bool {
	if p.kind() == kAll {
		return p.peek(1) != kTo && p.peek(1) != kFrom
	}
	return permissions[p.kind()]
}

// parseGrant parses GRANT and REVOKE of permissions and roles.
func (p *parser) parseGrant() *RoleStatement {
	s := &RoleStatement{Verb: "GRANT", Object: "ROLE"}
	to := kTo
	if p.kind() == kRevoke {
		s.Verb, to = "REVOKE", kFrom
	}
	p.advance()
	if p.startsPermissions() {
		p.permissionList(s)
		p.expect(kOn)
		p.resource()
	} else {
		s.Role = p.roleName()
	}
	p.expect(to)
	s.Grantee = p.roleName()
	return s
}

// resource parses what permissions are about.
func (p *parser) resource() {
	switch k, next := p.kind(), p.peek(1); {
	case p.stopped:
	case k == kAll:
		p.advance()
		p.allResources()
	case k == kKeyspace:
		p.advance()
		p.keyspaceName()
	case k == kRole && next != tDot && next != kTo && next != kFrom:
		p.advance()
		p.roleName()
	case k == kFunction && next != tDot && next != kTo && next != kFrom:
		p.advance()
		p.functionName()
		p.expect(tParenOpen)
		p.argumentTypes()
	case (k == kMbean || k == kMbeans) && next == tString:
		p.advance()
		p.stringText()
	default:
		p.accept(kColumnfamily)
		p.tableName()
	}
}

func (p *parser) allResources() {
	inKeyspace := func() {
		p.expect(kIn)
		p.expect(kKeyspace)
		p.keyspaceName()
	}
	switch {
	case p.accept(kKeyspaces), p.accept(kRoles), p.accept(kMbeans):
	case p.accept(kTables):
		inKeyspace()
	case p.accept(kFunctions):
		if p.kind() == kIn {
			inKeyspace()
		}
	default:
		p.noViable(p.pos, p.pos)
	}
}

// parseListRoles parses LIST of roles, users and permissions.
func (p *parser) parseListRoles() *RoleStatement {
	start := p.pos
	s := &RoleStatement{Verb: "LIST"}
	p.advance()
	switch {
	case p.accept(kUsers):
		s.Object = "USERS"
		return s
	case p.accept(kRoles):
		s.Object = "ROLES"
	case p.startsPermissions():
		p.permissionList(s)
		if p.accept(kOn) {
			p.resource()
		}
	default:
		p.noViable(start, p.pos)
		return s
	}
	if p.accept(kOf) {
		s.Grantee = p.roleName()
	}
	p.accept(kNorecursive)
	return s
}
