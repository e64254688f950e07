//! The commands, one file per verb (related verbs share one), named as in the RFCs.
//!
//! [`start`] is the dispatcher: one line per verb, without logic. A command takes the session and its arguments, writes
//! untagged responses, and returns the next action. [`Session::execute`] checks before that the state of the session
//! permits the command. The session itself does not depend on the commands.

pub mod append;
pub mod authenticate;
pub mod capability;
pub mod catch_up;
pub mod change_scan;
pub mod close;
pub mod compress;
pub mod content;
pub mod copy;
pub mod create;
pub mod delete;
pub mod enable;
pub mod expunge;
pub mod fetch;
pub mod get_jmap_access;
pub mod id;
pub mod list;
pub mod login;
pub mod logout;
pub mod lsub;
pub mod move_;
pub mod namespace;
pub mod noop;
pub mod notify;
pub mod quota;
pub mod rename;
pub mod replace;
pub mod search;
pub mod search_cursor;
pub mod select;
pub mod sort;
pub mod starttls;
pub mod status;
pub mod store;
pub mod subscribe;
pub mod thread;

use sasl::LoginError;

use crate::codec::command::{Command, CommandBody};
use crate::codec::{ResponseStatus, ResponseWriter, SyntaxError, Verb};
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, ConnectionAction, Session, TaggedReply, Task};

impl Session {
    /// Writes the greeting.
    pub fn greet(&self, out: &mut ResponseWriter) {
        out.untagged().text("OK [");
        capability::write(self, out);
        out.text("] Doublet is ready").crlf();
    }

    /// Executes a command.
    pub fn execute(&mut self, verb: &'static Verb, command: Command, out: &mut ResponseWriter) -> ConnectionAction {
        let started =
            self.begin_command(verb, command.tag, out).and_then(|()| catch_up::start(self, command.body, out));
        self.proceed(started, out)
    }

    /// Refuses a command that logs in, because no login can be checked now.
    pub fn refuse_login(
        &mut self,
        verb: &'static Verb,
        command: Command,
        out: &mut ResponseWriter,
    ) -> ConnectionAction {
        let begun = self.begin_command(verb, command.tag, out);
        let refused = begun.map(|()| CommandOutcome::Reply(login::refuse_login(self, LoginError::Unavailable)));
        self.proceed(refused, out)
    }

    /// Ends an exchange because its next line cannot be checked now. The exchange is withdrawn.
    pub fn refuse_answer(&mut self, out: &mut ResponseWriter) -> ConnectionAction {
        self.withdraw_exchange();
        let refused = login::refuse_login(self, LoginError::Unavailable);
        self.proceed(Ok(CommandOutcome::Reply(refused)), out)
    }

    /// Processes the line that the client sent after a continuation request.
    pub fn answer(&mut self, line: &[u8], out: &mut ResponseWriter) -> ConnectionAction {
        let next = match self.task.take() {
            None => return ConnectionAction::Ready,
            Some(Task::Sasl(exchange)) => Ok(authenticate::continue_exchange(self, exchange, line, out)),
            Some(Task::Idle) if line.eq_ignore_ascii_case(b"DONE") => {
                Ok(CommandOutcome::Reply(TaggedReply::completed()))
            }
            Some(Task::Idle) => Err(Error::Bad("expected DONE")),
            Some(Task::Job(_) | Task::Finish(_)) => Err(Error::Bad("unexpected line, no continuation was requested")),
        };
        self.proceed(next, out)
    }

    /// Refuses a line after a continuation request that is too long: ends an exchange with its tagged reply, and sends
    /// BYE. The connection must close, because the end of the line is unknown.
    pub fn refuse_line(&mut self, out: &mut ResponseWriter) {
        let action = match self.task.take() {
            Some(Task::Sasl(exchange)) => {
                let failed = authenticate::refuse_line(self, exchange, out);
                self.proceed(Ok(failed), out)
            }
            _ => ConnectionAction::Ready,
        };
        if action != ConnectionAction::Close {
            out.untagged_status(ResponseStatus::Bye, &SyntaxError::LineTooLong.to_string());
        }
    }
}

/// Begins a command.
pub fn start(session: &mut Session, body: CommandBody, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    match body {
        CommandBody::Append { mailbox, messages } => append::append(session, &mailbox, messages),
        CommandBody::Authenticate { mechanism, initial } => {
            Ok(authenticate::authenticate(session, &mechanism, initial.as_deref(), out))
        }
        CommandBody::Capability => capability::capability(session, out),
        CommandBody::Check => noop::check(session),
        CommandBody::Close => close::close(session),
        CommandBody::Compress(algorithm) => compress::compress(session, &algorithm),
        CommandBody::Copy(copy) => copy::copy(session, &copy),
        CommandBody::Create { mailbox, special_use } => create::create(session, &mailbox, &special_use),
        CommandBody::Delete(mailbox) => delete::delete(session, mailbox),
        CommandBody::Enable(names) => enable::enable(session, &names, out),
        CommandBody::Expunge(set) => expunge::expunge(session, set.as_ref()),
        CommandBody::Fetch(fetch) => fetch::fetch(session, fetch, out),
        CommandBody::GetJmapAccess => get_jmap_access::get_jmap_access(session, out),
        CommandBody::GetQuota(root) => quota::get_quota(session, &root, out),
        CommandBody::GetQuotaRoot(mailbox) => quota::get_quota_root(session, &mailbox, out),
        CommandBody::Id(_) => id::id(session, out),
        CommandBody::Idle => noop::idle(out),
        CommandBody::List(list) => list::list(session, list, out),
        CommandBody::Login { user, password } => Ok(login::login(session, &user, &password)),
        CommandBody::Logout => logout::logout(out),
        CommandBody::Lsub { reference, pattern } => lsub::lsub(session, &reference, pattern.as_deref()),
        CommandBody::Move(transfer) => move_::move_(session, &transfer),
        CommandBody::Namespace => namespace::namespace(out),
        CommandBody::Noop => noop::noop(),
        CommandBody::Notify(notify) => notify::notify(session, notify, out),
        CommandBody::Rename { from, to } => rename::rename(session, &from, &to),
        CommandBody::Replace(replace) => replace::replace(session, replace),
        CommandBody::Search(search) => search::search(session, search, out),
        CommandBody::Select(select) => select::select(session, &select, out),
        CommandBody::SetQuota { .. } => quota::set_quota(),
        CommandBody::Sort(sort) => sort::sort(session, sort, out),
        CommandBody::StartTls => starttls::starttls(session),
        CommandBody::Status { mailbox, items } => status::status(session, &mailbox, items, out),
        CommandBody::Store(store) => store::store(session, store, out),
        CommandBody::Subscribe(mailbox) => subscribe::subscribe(session, &mailbox),
        CommandBody::Thread(thread) => thread::thread(session, thread, out),
        CommandBody::Unselect => close::unselect(session),
        CommandBody::Unsubscribe(mailbox) => subscribe::unsubscribe(session, &mailbox),
    }
}
