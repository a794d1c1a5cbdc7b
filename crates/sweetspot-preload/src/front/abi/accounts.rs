//! Users, groups, hosts, services and the other tables of the name service switch; who is logged in.
//!
//! They read files under /etc and /var, and may ask daemons and the network.

/// Like `pass_through!`, for functions whose arguments and answer are all words (integers, addresses):
/// only their number matters. A narrower answer is handed on in its register.
macro_rules! words {
    ($($name:ident($($arg:ident)*))*) => {
        pass_through! { $(fn $name($($arg: usize),*) -> usize;)* }
    };
}

words! {
    getpwent() getpwent_r(a b c d) getpwnam(a) getpwnam_r(a b c d e) getpwuid(a)
    getpwuid_r(a b c d e) getpw(a b) setpwent() endpwent() fgetpwent(a) fgetpwent_r(a b c d e)
    putpwent(a b)
    getgrent() getgrent_r(a b c d) getgrgid(a) getgrgid_r(a b c d e) getgrnam(a)
    getgrnam_r(a b c d e) setgrent() endgrent() fgetgrent(a) fgetgrent_r(a b c d e) putgrent(a b)
    getgrouplist(a b c d)
    getspent() getspent_r(a b c d) getspnam(a) getspnam_r(a b c d e) setspent() endspent()
    fgetspent(a) fgetspent_r(a b c d e) putspent(a b)
    getsgent() getsgent_r(a b c d) getsgnam(a) getsgnam_r(a b c d e) setsgent() endsgent()
    fgetsgent(a) fgetsgent_r(a b c d e) putsgent(a b)
    gethostent() gethostent_r(a b c d e) gethostbyname(a) gethostbyname_r(a b c d e f)
    gethostbyname2(a b) gethostbyname2_r(a b c d e f g) gethostbyaddr(a b c)
    gethostbyaddr_r(a b c d e f g h) sethostent(a) endhostent()
    getnetent() getnetent_r(a b c d e) getnetbyname(a) getnetbyname_r(a b c d e f)
    getnetbyaddr(a b) getnetbyaddr_r(a b c d e f g) setnetent(a) endnetent()
    getprotoent() getprotoent_r(a b c d) getprotobyname(a) getprotobyname_r(a b c d e)
    getprotobynumber(a) getprotobynumber_r(a b c d e) setprotoent(a) endprotoent()
    getservent() getservent_r(a b c d) getservbyname(a b) getservbyname_r(a b c d e f)
    getservbyport(a b) getservbyport_r(a b c d e f) setservent(a) endservent()
    getrpcent() getrpcent_r(a b c d) getrpcbyname(a) getrpcbyname_r(a b c d e)
    getrpcbynumber(a) getrpcbynumber_r(a b c d e) setrpcent(a) endrpcent()
    getaliasent() getaliasent_r(a b c d) getaliasbyname(a) getaliasbyname_r(a b c d e)
    setaliasent() endaliasent()
    getnetgrent(a b c) getnetgrent_r(a b c d e) setnetgrent(a) endnetgrent() innetgr(a b c d)
    ether_hostton(a b) ether_ntohost(a b)
    getfsent() getfsfile(a) getfsspec(a) setfsent() endfsent()
    getttyent() getttynam(a) setttyent() endttyent()
    getusershell() setusershell() endusershell()
    getutent() getutent_r(a b) getutid(a) getutid_r(a b c) getutline(a) getutline_r(a b c)
    getutxent() getutxid(a) getutxline(a) pututline(a) pututxline(a) setutent() setutxent()
    endutent() endutxent() updwtmp(a b) updwtmpx(a b) utmpname(a) utmpxname(a)
    login(a) logout(a) logwtmp(a b c) getlogin() getlogin_r(a b) __getlogin_r_chk(a b c)
    setlogin(a) cuserid(a)
}
